package gateway

import (
	"slices"

	"allium/gateway/api"
	"allium/protocols/status"
)

// readiness returns the node's readiness, and the outcome to answer with if it is not ready. While
// the gateway drains, a gate "draining" comes first.
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
		Name: "draining", Need: 1, RetryAfter: 1,
		Fix: "the node is shutting down; ask another, or wait until it is back",
	})
	return page, status.Draining
}
