package adding

import (
	"context"
	"fmt"

	"allium/cmd/allium/cli"
	"allium/gateway/api"
	"allium/gateway/site"
)

// KnownGateway returns where the gateway of a running node is, and nowhere for another: what it is for is done already.
func KnownGateway(ctx context.Context, n any) (g site.Gateway) {
	if n, ok := n.(api.Node); ok {
		if id, err := n.ID(ctx); err == nil {
			g = site.Gateway{URL: id.Gateway, Origins: id.Origins, Domains: id.Domains()}
		}
	}
	return g
}

// TellLinks says where browsers find what was added.
func TellLinks(a *cli.App, links []string) {
	if !a.Quiet && !a.JSON {
		for _, l := range links {
			fmt.Fprintln(a.Stderr, "in a browser: "+l)
		}
	}
}
