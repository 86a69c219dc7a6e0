package transfer

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/resolver/schedule"
)

// metrics are named as in SPEC §10.
type metrics struct {
	hedges *prometheus.CounterVec // result

	fetchBytes, rangeBytes, extraBytes prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, received *prometheus.CounterVec) *metrics {
	m := &metrics{
		fetchBytes: received.WithLabelValues("fetch"),
		rangeBytes: received.WithLabelValues("range"),
		extraBytes: received.WithLabelValues("extra"),
		hedges: env.CounterVec("resolver_hedges_total",
			"Requests that hedged a late one, by result: won (it delivered a group first), lost, failed.", "result"),
	}
	env.Values(m.hedges, "won", "lost", "failed")
	env.MustRegister(reg, m.hedges)
	return m
}

// hedge counts a request that hedged another one.
func (m *metrics) hedge(h schedule.HedgeResult) {
	switch h {
	case schedule.HedgeWon:
		m.hedges.WithLabelValues("won").Inc()
	case schedule.HedgeLost:
		m.hedges.WithLabelValues("lost").Inc()
	case schedule.HedgeFailed:
		m.hedges.WithLabelValues("failed").Inc()
	case schedule.NoHedge:
	}
}

// register adds the gauge of the transfers.
func (s *Set) register(reg prometheus.Registerer) {
	count := func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.transfers))
	}
	for state, f := range map[string]func() float64{
		"all": count, "lingering": func() float64 { return float64(min(s.lingering.Load(), maxLingering)) },
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "resolver_transfers",
			Help:        "Objects being fetched (all), and those of them that stay open without a waiter (lingering).",
			ConstLabels: prometheus.Labels{"state": state},
		}, f))
	}
}
