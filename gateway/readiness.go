package gateway

import (
	"slices"

	"allium/gateway/api"
	"allium/protocols/status"
)

// readiness is the node's page, with the gateway's own drain before its gates,
// and why the node is not ready if it is not.
func (g *Gateway) readiness() (api.Readiness, status.Outcome) {
	page := g.ready()
	if page.Gates == nil {
		page.Gates = []api.Gate{}
	}
	if !g.Draining() {
		return page, status.NotReady
	}
	page.Ready, page.Reads, page.Writes, page.Network = false, false, false, false
	page.Gates = slices.Insert(page.Gates, 0, api.Gate{
		Name: "draining", Need: 1, RetryAfter: 1, Fix: "the node is shutting down; ask another, or wait until it is back",
	})
	return page, status.Draining
}
