package scrub

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// register registers the metrics of the scrub. A nil reg is ignored.
func (c *Scrubber) register(reg prometheus.Registerer) {
	if reg == nil {
		return
	}
	count := func(name, help string, n *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(n.Load()) })
	}
	gauge := func(name, help string, read func(Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return read(c.Stats()) })
	}
	reg.MustRegister(
		count("scrub_bytes_total", "Bytes that the scrub has read.", &c.bytes),
		count("scrub_objects_total", "Objects that the scrub has read.", &c.objects),
		count("scrub_bad_total", "Objects that the scrub could not prove.", &c.bad),
		gauge("scrub_progress_ratio", "Share of the current scrub cycle that is done, 0 to 1.",
			func(s Stats) float64 { return s.Progress }),
		gauge("scrub_last_cycle_seconds", "Duration of the last complete scrub cycle in seconds.",
			func(s Stats) float64 { return s.LastTook }),
	)
}
