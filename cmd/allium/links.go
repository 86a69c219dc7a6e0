package main

import (
	"context"
	"fmt"

	"allium/gateway/api"
	"allium/gateway/site"
)

// knownGateway returns where the gateway of a running node is, and nowhere for another: what it is for is done already.
func knownGateway(ctx context.Context, n any) (g site.Gateway) {
	if n, ok := n.(api.Node); ok {
		if id, err := n.ID(ctx); err == nil {
			g = site.Gateway{URL: id.Gateway, Origins: id.Origins, Domains: id.Domains()}
		}
	}
	return g
}

// tellLinks says where browsers find what was added.
func tellLinks(a *app, links []string) {
	if !a.quiet && !a.json {
		for _, l := range links {
			fmt.Fprintln(a.stderr, "in a browser: "+l)
		}
	}
}
