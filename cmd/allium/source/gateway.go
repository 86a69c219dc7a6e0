package source

import (
	"context"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/gateway/verified"
	"allium/node/local"
)

// GatewayFlags name a gateway to use instead of this machine's node.
type GatewayFlags struct {
	URL string
	ca  string
}

// Add defines the flags. what says what the command does with the gateway.
func (f *GatewayFlags) Add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.URL, "gateway", "",
		what+": https://host or http://127.0.0.1:8080 (default: this machine's node)")
	cmd.Flags().StringVar(&f.ca, "gateway-ca", "",
		"with --gateway, PEM file of the CA of its certificate (default: the system's CAs)")
}

// ThroughGateway reports whether cmd was told to use a gateway. The --gateway of
// `allium run` is another flag.
func ThroughGateway(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("gateway")
	return f != nil && f.Value.String() != "" && cmd.Flags().Lookup("gateway-ca") != nil
}

// Open returns the gateway, or nil if none is named. The caller closes it.
func (f *GatewayFlags) Open(a *cli.App) (*verified.Gateway, error) {
	if f.URL == "" {
		if f.ca != "" {
			return nil, failure.NewUsage("name a gateway with --gateway",
				"--gateway-ca is about a gateway, and there is none")
		}
		return nil, nil
	}
	token, err := cli.Token(a, a.TokenFile)
	if err != nil {
		return nil, err
	}
	return verified.New(f.URL, verified.Options{Token: token, CA: f.ca})
}

// withReader runs do on the gateway that f names. If f names none, it runs do on
// the node or its store.
func withReader(ctx context.Context, a *cli.App, f GatewayFlags, do func(api.Reader) error) error {
	g, err := f.Open(a)
	if err != nil {
		return err
	}
	if g == nil {
		return a.WithStore(ctx, func(s api.Store) error { return do(s) })
	}
	defer g.Close()
	return do(local.NewGateway(g))
}
