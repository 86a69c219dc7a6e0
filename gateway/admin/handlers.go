package admin

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Deps is what the pages of the admin listener and the local API work with.
type Deps struct {
	Node     api.Node
	Ready    func() (api.Readiness, status.Outcome) // cheap, never waits; the outcome says why the node is not ready
	Version  api.Version
	Denylist exchange.Denylist
	Bodies   *exchange.Bodies
	Guard    *exchange.Guard
	Gatherer prometheus.Gatherer // what /metrics shows; nil: nothing
	Limits   *limits.Registry    // what /limits shows
}

// Handlers answer the pages of the admin listener and the local API.
type Handlers struct {
	node     api.Node
	ready    func() (api.Readiness, status.Outcome)
	version  api.Version
	denylist exchange.Denylist
	bodies   *exchange.Bodies
	guard    *exchange.Guard
	gatherer prometheus.Gatherer
	registry *limits.Registry
	once     *once
}

// New returns the handlers of what d brings.
func New(d Deps) *Handlers {
	return &Handlers{
		node: d.Node, ready: d.Ready, version: d.Version, denylist: d.Denylist, bodies: d.Bodies, guard: d.Guard,
		gatherer: d.Gatherer, registry: d.Limits, once: newOnce(d.Limits),
	}
}

// Endpoints are the lines of the table, without the listeners' own pages.
func (g *Handlers) Endpoints() []exchange.Endpoint { return slices.Concat(g.mutations(), g.api()) }
