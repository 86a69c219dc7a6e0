package hints

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

// metrics holds the metrics of this package, under announce_.
type metrics struct {
	accepted    *prometheus.CounterVec // via
	refused     *prometheus.CounterVec // via, reason
	published   *prometheus.CounterVec // result
	syncs       *prometheus.CounterVec // side, outcome
	syncSeconds prometheus.Histogram
	sent        prometheus.Counter
}

// The sides of a comparison.
const (
	sideAsked  = "asked" // by this node
	sideServed = "served"
)

func newMetrics(reg prometheus.Registerer, m *memory) (*metrics, error) {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	ms := &metrics{
		accepted: env.CounterVec("announce_accepted_total",
			"Announcements that were new, by how they came: own, gossip or sync.", "via"),
		refused: env.CounterVec("announce_refused_total",
			"Announcements refused, by how they came and why (an outcome).", "via", "reason"),
		published: env.CounterVec("announce_published_total",
			"Announcements of this node, by result of publishing them; what failed spreads by comparisons alone.",
			"result"),
		syncs: env.CounterVec("announce_syncs_total",
			"Comparisons with peers, asked for by this node or served, by outcome.", "side", "outcome"),
		syncSeconds: prometheus.NewHistogram(
			prometheus.HistogramOpts{
				Name:    "announce_sync_seconds",
				Help:    "Time of a comparison that this node asked for and that succeeded.",
				Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
			},
		),
		sent: env.Counter("announce_sync_sent_total", "Announcements sent in comparisons."),
	}
	env.Values(ms.accepted, viaOwn, viaGossip, viaSync)
	if reg == nil {
		return ms, nil
	}
	for _, c := range []prometheus.Collector{
		ms.accepted, ms.refused, ms.published, ms.syncs, ms.syncSeconds, ms.sent,
		gauge("announce_held", "Announcements held.", func() float64 { n, _, _ := m.usage(); return float64(n) }),
		gauge("announce_hints", "Objects in the announcements held.", func() float64 {
			_, n, _ := m.usage()
			return float64(n)
		}),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

func (m *metrics) refuse(v via, err error) {
	m.refused.WithLabelValues(string(v), status.Of(err).String()).Inc()
}

func (m *metrics) synced(side string, start time.Time, err error) {
	m.syncs.WithLabelValues(side, status.Of(err).String()).Inc()
	if side == sideAsked && err == nil {
		m.syncSeconds.Observe(time.Since(start).Seconds())
	}
}
