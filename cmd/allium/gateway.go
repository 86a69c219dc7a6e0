package main

import (
	"context"

	"github.com/spf13/cobra"

	"allium/gateway/api"
	"allium/gateway/verified"
	"allium/node/localapi"
	"allium/protocols/status"
)

// gatewayFlags name a gateway to work through instead of the own node.
type gatewayFlags struct {
	url string
	ca  string
}

// add defines the flags for a command that does what through a gateway.
func (f *gatewayFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.url, "gateway", "", what+" a gateway, https://host or http://127.0.0.1:8080, that need not be trusted")
	cmd.Flags().StringVar(&f.ca, "gateway-ca", "", "with --gateway: PEM file of the CA of its certificate (default: the system's)")
}

// throughGateway reports whether a command that can was told to work through a
// gateway; `run` has a --gateway of another kind.
func throughGateway(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("gateway")
	return f != nil && f.Value.String() != "" && cmd.Flags().Lookup("gateway-ca") != nil
}

// open returns the gateway, nil where none is named.
func (f *gatewayFlags) open(a *app) (*verified.Gateway, error) {
	if f.url == "" {
		if f.ca != "" {
			return nil, status.Errorf(status.BadRequest, "--gateway-ca goes with --gateway; name one")
		}
		return nil, nil
	}
	token, err := a.token(a.tokenFile)
	if err != nil {
		return nil, err
	}
	return verified.New(f.url, verified.Options{Token: token, CA: f.ca})
}

// withReader runs do on the gateway that f names or, where it names none, on the
// node or its store.
func (a *app) withReader(ctx context.Context, f gatewayFlags, do func(api.Reader) error) error {
	g, err := f.open(a)
	if err != nil {
		return err
	}
	if g == nil {
		return a.withStore(ctx, func(s api.Store) error { return do(s) })
	}
	defer g.Close()
	return do(localapi.NewGateway(g))
}
