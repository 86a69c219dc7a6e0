package main

import (
	"context"

	"github.com/spf13/cobra"

	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/gateway/verified"
	"allium/node/local"
)

// gatewayFlags name a gateway to use instead of this machine's node.
type gatewayFlags struct {
	url string
	ca  string
}

// add defines the flags. what says what the command does with the gateway.
func (f *gatewayFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.url, "gateway", "",
		what+": https://host or http://127.0.0.1:8080 (default: this machine's node)")
	cmd.Flags().StringVar(&f.ca, "gateway-ca", "",
		"with --gateway, PEM file of the CA of its certificate (default: the system's CAs)")
}

// throughGateway reports whether cmd was told to use a gateway. The --gateway of
// `allium run` is another flag.
func throughGateway(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("gateway")
	return f != nil && f.Value.String() != "" && cmd.Flags().Lookup("gateway-ca") != nil
}

// open returns the gateway, or nil if none is named. The caller closes it.
func (f *gatewayFlags) open(a *app) (*verified.Gateway, error) {
	if f.url == "" {
		if f.ca != "" {
			return nil, failure.NewUsage("name a gateway with --gateway",
				"--gateway-ca is about a gateway, and there is none")
		}
		return nil, nil
	}
	token, err := token(a, a.tokenFile)
	if err != nil {
		return nil, err
	}
	return verified.New(f.url, verified.Options{Token: token, CA: f.ca})
}

// withReader runs do on the gateway that f names. If f names none, it runs do on
// the node or its store.
func withReader(ctx context.Context, a *app, f gatewayFlags, do func(api.Reader) error) error {
	g, err := f.open(a)
	if err != nil {
		return err
	}
	if g == nil {
		return a.withStore(ctx, func(s api.Store) error { return do(s) })
	}
	defer g.Close()
	return do(local.NewGateway(g))
}
