package content

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/internal/limits"
)

// Deps is what content is served from.
type Deps struct {
	Objects  Objects
	Denylist exchange.Denylist
	Ready    func() api.Readiness // cheap, never waits
	Version  string               // of the program, shown on the first page
	Metrics  prometheus.Registerer
	Limits   *limits.Registry
}

// Handlers answer with objects and directories.
type Handlers struct {
	cfg      Config
	objects  Objects
	denylist exchange.Denylist
	ready    func() api.Readiness
	version  string

	fetches  fetchGate
	encoders *limits.Gate
	kinds    *kinds
	expired  prometheus.Counter
}

// New returns the handlers of what d brings, within cfg.
func New(cfg Config, d Deps) (*Handlers, error) {
	g := &Handlers{cfg: cfg, objects: d.Objects, denylist: d.Denylist, ready: d.Ready, version: d.Version}
	g.fetches = newFetchGate(cfg, d.Limits)
	g.encoders = d.Limits.NewGate(limits.Spec{
		Name: "gateway.encoders", Path: "listings → compression", Policy: "sent as it is",
	}, encoders, 0)
	var err error
	if g.kinds, err = newKinds(d.Limits); err != nil {
		return nil, err
	}
	g.expired = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_expired_total", Help: "Requests whose time was over before it was their turn to ask the network, and that were not begun.",
	})
	if d.Metrics != nil {
		d.Metrics.MustRegister(g.expired)
	}
	return g, nil
}
