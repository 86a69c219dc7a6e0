package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/store/disk/damage"
	"allium/store/ram/arena"
)

// newIntegrity returns the counter of failed checks, with the label reason.
func newIntegrity() *prometheus.CounterVec {
	return env.Values(env.CounterVec("integrity_fail_total",
		"Stored objects that failed a check, by reason: digest (wrong bytes), missing (no file), short (truncated "+
			"file), io (disk error), partial (a damaged group of a partial object).",
		"reason"), "digest", "missing", "short", "io", "partial")
}

// register registers the store's metrics, which read Stats when they are collected.
func (s *Store) register(reg prometheus.Registerer, integrity *prometheus.CounterVec) {
	if reg == nil {
		return
	}
	damage.Register(reg, s.backend.Damages())
	reg.MustRegister(integrity,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hash_wait_seconds",
			Help: "How long recently read groups waited to be hashed, as a moving mean. " +
				"Above 0.006, one of several cores hashes no groups, so that it can serve other requests.",
		}, func() float64 { return s.hash.Wait().Seconds() }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "store_touches_dropped_total",
			Help: "Last uses of objects that were not noted because too many were waiting to be written.",
		}, func() float64 { return float64(s.uses.Dropped()) }),
	)
	for _, g := range statsGauges {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help},
			func() float64 { return g.read(s.Stats()) }))
	}
	for _, c := range statsCounters {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help},
			func() float64 { return c.read(s.Stats()) }))
	}
	for _, g := range ramGauges {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help},
			func() float64 { return float64(g.read(s.RAM())) }))
	}
}

// metricOf is a metric that is read from a T.
type metricOf[T any, N int64 | float64] struct {
	name, help string
	read       func(T) N
}

var statsGauges = []metricOf[Stats, float64]{
	{"store_hot_bytes", "Bytes of verified objects in the RAM cache.",
		func(s Stats) float64 { return float64(s.Hot.Bytes) }},
	{"store_objects", "Visible objects.",
		func(s Stats) float64 { return float64(s.Objects) }},
	{"store_bytes", "Bytes of visible objects.",
		func(s Stats) float64 { return float64(s.Bytes) }},
	{"store_corrupt_objects", "Objects that failed a check and wait for a new copy.",
		func(s Stats) float64 { return float64(s.Corrupt) }},
	{"store_partial_objects", "Objects that are stored in part.",
		func(s Stats) float64 { return float64(s.PartialObjects) }},
	{"store_partial_bytes", "Stored bytes of objects that are stored in part.",
		func(s Stats) float64 { return float64(s.PartialBytes) }},
	{"store_segment_bytes", "Bytes of segment files, including spare ones.",
		func(s Stats) float64 { return float64(s.Usage.SegmentBytes) }},
	{"store_segment_live_bytes", "Bytes of records in segments that are still needed.",
		func(s Stats) float64 { return float64(s.Usage.SegmentLiveBytes) }},
	{"store_ballast_bytes",
		"Bytes that the store keeps allocated so that it can remove objects when the disk is full. " +
			"The full size is a fourth of store.reserve_bytes, from 4 MiB to 16 MiB. " +
			"It is less when they were used up, or never fitted on the disk.",
		func(s Stats) float64 { return float64(s.Usage.BallastBytes) }},
	{"store_index_bytes", "Bytes of the index on disk.",
		func(s Stats) float64 { return float64(s.Usage.IndexBytes) }},
	{"store_quarantine_files",
		"Files in quarantine/, which belong to no object. Inspect them and delete what is not needed.",
		func(s Stats) float64 { return float64(s.Usage.QuarantineFiles) }},
	{"store_quarantine_bytes", "Bytes of the files in quarantine/.",
		func(s Stats) float64 { return float64(s.Usage.QuarantineBytes) }},
	{"store_write_failed", "1 if writing failed and the store writes nothing until a restart, else 0.",
		func(s Stats) float64 {
			if s.WriteErr != nil {
				return 1
			}
			return 0
		}},
}

var statsCounters = []metricOf[Stats, float64]{
	{"store_hot_hits_total", "Objects opened from the RAM cache.",
		func(s Stats) float64 { return float64(s.Hot.Hits) }},
	{"store_hot_misses_total", "Look-ups in the RAM cache that did not find the object.",
		func(s Stats) float64 { return float64(s.Hot.Misses) }},
	{"store_partial_waits_total", "Writes of downloads that waited for a checkpoint of their download.",
		func(s Stats) float64 { return float64(s.PartialWaits) }},
	{"store_compactions_total", "Compacted segments.",
		func(s Stats) float64 { return float64(s.Usage.Compactions) }},
	{"store_compacted_bytes_total", "Bytes that compaction copied.",
		func(s Stats) float64 { return float64(s.Usage.CompactedBytes) }},
	{"store_reclaimed_bytes_total", "Bytes that compaction freed.",
		func(s Stats) float64 { return float64(s.Usage.ReclaimedBytes) }},
	{"store_files_shed_total",
		"Cached open files that the store closed because the process had no file descriptor left.",
		func(s Stats) float64 { return float64(s.Files.Shed) }},
	{"store_files_refused_total", "Files of the store that could not be opened because the process had " +
		"no file descriptor left. Each such request returned busy.",
		func(s Stats) float64 { return float64(s.Files.Refused) }},
}

var ramGauges = []metricOf[arena.Stats, int64]{
	{"store_ram_bytes", "RAM that the memory backend has allocated to objects, at most store.memory_bytes.",
		func(r arena.Stats) int64 { return r.Used }},
	{"store_ram_wasted_bytes", "Bytes of store_ram_bytes that are lost to rounding.",
		func(r arena.Stats) int64 { return r.Wasted }},
	{"store_ram_touched_bytes", "Upper bound of the RAM that the memory backend has from the system.",
		func(r arena.Stats) int64 { return r.Touched }},
}
