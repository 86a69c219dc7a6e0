package admin

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/policy"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Deps are the parts of the node that the handlers use. All but Gatherer, Limits and Events are
// required.
type Deps struct {
	Node api.Node
	// Ready returns the node's readiness, and the outcome to answer with when it is not ready. It
	// is cheap and never waits.
	Ready    func() (api.Readiness, status.Outcome)
	Version  api.Version
	Denylist policy.Filter
	Bodies   *exchange.Bodies
	Guard    *exchange.Guard
	Gatherer prometheus.Gatherer // the metrics of /metrics; nil: none
	Limits   *limits.Registry    // the limits of /limits; nil: none
	// Events are the events of the node, closed with draining when it stops; nil: none.
	Events *limits.Events[*api.Event]
	// FollowName is for the names that readers of events follow; nil: they cannot.
	FollowName FollowName
}

// FollowName returns the name, with the key of its zone, that text stands for. Until release is
// called, the node takes up each new record of it that peers announce.
type FollowName func(ctx context.Context, text string) (full string, release func(), err error)

// Handlers serve the pages and the local API. Their methods may be called from any goroutine.
type Handlers struct {
	verbs
	pages pages
	feed  feed
}

// New returns the handlers.
func New(d Deps) *Handlers {
	return &Handlers{
		verbs: verbs{
			node: d.Node, denylist: d.Denylist, bodies: d.Bodies, guard: d.Guard, idempotency: newIdempotency(d.Limits),
		},
		pages: pages{node: d.Node, ready: d.Ready, version: d.Version, gatherer: d.Gatherer, limits: d.Limits},
		feed:  feed{events: d.Events, followName: d.FollowName},
	}
}
