package upkeep

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/store/cluster/plan"
)

type metrics struct {
	proofs  *prometheus.CounterVec
	seconds prometheus.Histogram
	dropped prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, inv *inventory, l *latest) metrics {
	m := metrics{
		proofs: env.CounterVec("durability_proofs_total",
			"Answers of members to challenges of their copies, also to those that were sent with a copy: proved, "+
				"leaving (about to be dropped), absent or wrong, busy (late or not reached).", "result"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "durability_proof_seconds",
			Help:    "How long members took to answer a challenge of up to 256 objects.",
			Buckets: prometheus.ExponentialBuckets(.001, 4, 8)}),
		dropped: env.Counter("durability_dropped_total",
			"Copies that this node dropped because others have enough, or nothing asks for them any more."),
	}
	env.Values(m.proofs, results[:]...)
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	reg.MustRegister(m.proofs, m.seconds, m.dropped,
		gauge("durability_objects", "Objects of this node that have a target.",
			func() float64 { n, _, _ := inv.counts(); return float64(n) }),
		gauge("durability_active_objects", "Objects of this node that have a target and do not rest: copies are sent, "+
			"proved, told or dropped, or are kept as shards. At most 65,536.",
			func() float64 { _, n, _ := inv.counts(); return float64(n) }),
		gauge("durability_checking_objects",
			"Objects of this node whose copies are being placed, or whose holders have "+
				"not answered yet.",
			func() float64 { return float64(l.get().Checking) }),
		gauge("durability_at_risk_objects", "Objects of this node with fewer copies than their targets ask for.",
			func() float64 { return float64(l.get().AtRisk) }),
		gauge("durability_unreachable_objects", "Objects at risk that cannot be read until a member answers that is "+
			"silent.",
			func() float64 { return float64(l.get().Unreachable) }),
		gauge("durability_lost_objects", "Objects of this node with a target that cannot be read, and of which every "+
			"member said that it holds nothing.",
			func() float64 { return float64(l.get().Lost) }),
		gauge("rf_target", "Copies that the targets of this node's objects ask for.",
			func() float64 { return float64(l.get().Wanted) }),
		gauge("rf_observed", "Copies of this node's objects with a target that count.",
			func() float64 { return float64(l.get().Observed) }),
		gauge("durability_unplanned_objects", "Objects with a target for which there is no room yet, as there "+
			"are too many, or too many are active.",
			func() float64 { _, _, n := inv.counts(); return float64(n) }))
	return m
}

// results are the values of the label result, by answer.
var results = [...]string{
	plan.Busy: "busy", plan.Proved: "proved", plan.Leaving: "leaving", plan.Absent: "absent",
}

// answered counts answers.
func (m *metrics) answered(answers []plan.Response, took time.Duration) {
	m.seconds.Observe(took.Seconds())
	for _, a := range answers {
		m.proofs.WithLabelValues(results[a.Answer]).Inc()
	}
}
