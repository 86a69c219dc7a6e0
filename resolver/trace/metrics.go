package trace

import "github.com/prometheus/client_golang/prometheus"

// register adds the metrics of the ring. Their label is the part: failed, ordinary, hits or running.
func (r *Ring) register(reg prometheus.Registerer) {
	running := func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(len(r.active))
	}
	for name, n := range map[string]func() float64{
		"failed":   func() float64 { return float64(r.failed.count()) },
		"ordinary": func() float64 { return float64(r.ordinary.count()) },
		"hits":     func() float64 { return float64(r.hits.n.Load()) },
		"running":  running,
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "trace_ring_entries",
			Help: "Lookups that `allium why` can show, by part: failed (slow ones too), ordinary, hits, " +
				"running.",
			ConstLabels: prometheus.Labels{"part": name},
		}, n))
	}
	for name, n := range map[string]func() float64{
		"failed":   func() float64 { return float64(r.failed.used.Load()) },
		"ordinary": func() float64 { return float64(r.ordinary.used.Load()) },
		"hits":     func() float64 { return float64(r.hits.n.Load()) * float64(hitSize) },
		"running":  func() float64 { return float64(r.running.used.Load()) },
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "trace_ring_bytes",
			Help:        "Bytes of the lookups that `allium why` can show, by part.",
			ConstLabels: prometheus.Labels{"part": name},
		}, n))
	}
	for name, p := range map[string]*part{"failed": r.failed, "ordinary": r.ordinary} {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "trace_ring_evicted_total",
			Help:        "Lookups that left a full part of the ring, by part.",
			ConstLabels: prometheus.Labels{"part": name},
		}, func() float64 { return float64(p.evicted.Load()) }))
	}
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "trace_ring_omitted_total",
		Help: "Details that were left out of lookups, and lookups that were not recorded, because a bound was reached.",
	}, func() float64 { return float64(r.omitted.Load()) }))
}
