package gc

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

// metrics counts the work of collections.
type metrics struct {
	cycles         *prometheus.CounterVec // result
	removedObjects prometheus.Counter
	removedBytes   prometheus.Counter
	marked         prometheus.Gauge
	seconds        prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, g *Collector) *metrics {
	m := &metrics{
		cycles: env.CounterVec("gc_cycles_total",
			"Garbage collections by result. A conflict means that damage of the store, or of a directory below a "+
				"pin, kept the collection from removing anything.", "result"),
		removedObjects: env.Counter("gc_removed_objects_total", "Objects that collections removed."),
		removedBytes:   env.Counter("gc_removed_bytes_total", "Bytes of objects that collections removed."),
		marked:         env.Gauge("gc_marked", "Directories below pins that the latest collection read."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gc_seconds", Help: "Duration of a collection in seconds, including its pauses.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9),
		}),
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, read func(Space) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return float64(read(g.Space()))
		})
	}
	reg.MustRegister(m.cycles, m.removedObjects, m.removedBytes, m.marked, m.seconds,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "store_full_total", Help: "Writes that were refused because the store or the disk is full.",
		}, func() float64 { return float64(g.deps.Account.refused.Load()) }),
		gauge("store_free_bytes", "Bytes free on the store's disk, or -1 when unknown.",
			func(sp Space) int64 { return sp.Free }),
		gauge("store_used_bytes",
			"Bytes that count against store.max_bytes: objects, outboards, partial objects and puts in progress.",
			func(sp Space) int64 { return sp.Used.Bytes }),
		gauge("store_max_bytes", "Bytes that the store may hold now, or 0 without a bound.",
			func(sp Space) int64 { return sp.Max.Bytes }),
		gauge("store_pinned_bytes", "Bytes that pins protected when the latest collection looked.",
			func(sp Space) int64 { return sp.Pinned.Bytes }),
		gauge("store_evictable_bytes", "Bytes that nothing protected at the end of the latest collection.",
			func(sp Space) int64 { return sp.Evictable.Bytes }),
		gauge("store_full", "1 while writes are refused because there is no space, else 0.", func(sp Space) int64 {
			if sp.Full {
				return 1
			}
			return 0
		}),
	)
	return m
}

// count counts a collection that ended with err. Dry runs do not count.
func (m *metrics) count(c *cycle, err error) {
	if c.opt.Dry {
		return
	}
	m.cycles.WithLabelValues(status.Of(err).String()).Inc()
	n := c.report.Classes[Removed]
	m.removedObjects.Add(float64(n.Objects))
	m.removedBytes.Add(float64(n.Bytes))
	m.marked.Set(float64(c.report.Nodes))
	m.seconds.Observe(c.report.Took.Seconds())
}
