package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"allium/store/arena"
	"allium/store/damage"
)

// metrics are the store's counters; the rest is read from Stats when asked.
type metrics struct {
	integrity *prometheus.CounterVec // reason
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	m := &metrics{integrity: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "integrity_fail_total", Help: "Stored objects that failed a check: digest (wrong bytes), missing (file gone), short (file cut), io (disk error), partial (a group of an object that is not whole).",
	}, []string{"reason"})}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, read func(Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return read(s.Stats()) })
	}
	ram := func(name, help string, read func(arena.Stats) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read(s.RAM())) })
	}
	counter := func(name, help string, read func(Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return read(s.Stats()) })
	}
	damage.Register(reg, s.backend.Damages())
	reg.MustRegister(m.integrity,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hash_wait_seconds", Help: "How long the last groups that were read waited to be hashed, a moving mean; above 0.006 one of several cores is kept from hashing, for other requests.",
		}, func() float64 { return s.hash.Wait().Seconds() }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "store_touches_dropped_total", Help: "Last uses of objects that were not noted because too many came at once."}, func() float64 { return float64(s.uses.Dropped()) }),
		counter("store_hot_hits_total", "Objects opened from RAM.", func(s Stats) float64 { return float64(s.Hot.Hits) }),
		counter("store_hot_misses_total", "Objects looked for in RAM that were not there.", func(s Stats) float64 { return float64(s.Hot.Misses) }),
		gauge("store_hot_bytes", "Bytes of verified objects in RAM.", func(s Stats) float64 { return float64(s.Hot.Bytes) }),
		gauge("store_objects", "Objects that are visible.", func(s Stats) float64 { return float64(s.Objects) }),
		gauge("store_bytes", "Bytes of visible objects.", func(s Stats) float64 { return float64(s.Bytes) }),
		gauge("store_corrupt_objects", "Objects that failed a check and wait for a new copy.", func(s Stats) float64 { return float64(s.Corrupt) }),
		ram("store_ram_bytes", "RAM that the memory backend has given to objects, of store.memory_bytes.", func(r arena.Stats) int64 { return r.Used }),
		ram("store_ram_wasted_bytes", "Bytes of store_ram_bytes that are lost to rounding.", func(r arena.Stats) int64 { return r.Wasted }),
		ram("store_ram_touched_bytes", "RAM that the memory backend has of the system, at most.", func(r arena.Stats) int64 { return r.Touched }),
		gauge("store_partial_objects", "Objects of which a part is here.", func(s Stats) float64 { return float64(s.PartialObjects) }),
		gauge("store_partial_bytes", "Bytes of such objects that are here.", func(s Stats) float64 { return float64(s.PartialBytes) }),
		counter("store_partial_waits_total", "Writes of downloads that waited until what came before was noted durably.", func(s Stats) float64 { return float64(s.PartialWaits) }),
		gauge("store_segment_bytes", "Bytes of segment files, spare ones among them.", func(s Stats) float64 { return float64(s.Usage.SegmentBytes) }),
		gauge("store_segment_live_bytes", "Bytes of records in segments that are needed.", func(s Stats) float64 { return float64(s.Usage.SegmentLiveBytes) }),
		gauge("store_ballast_bytes", "Bytes that the store holds on its disk for removals when the disk is full; less than a fourth of store.reserve_bytes (4 MiB at least, 16 MiB at most) when they were used up, or there was never room.", func(s Stats) float64 { return float64(s.Usage.BallastBytes) }),
		gauge("store_index_bytes", "Bytes of the index on disk.", func(s Stats) float64 { return float64(s.Usage.IndexBytes) }),
		gauge("store_quarantine_files", "Files that nothing accounts for, in quarantine/: look through them and delete what is not needed.", func(s Stats) float64 { return float64(s.Usage.QuarantineFiles) }),
		gauge("store_quarantine_bytes", "Bytes of those files.", func(s Stats) float64 { return float64(s.Usage.QuarantineBytes) }),
		counter("store_compactions_total", "Segments that were compacted.", func(s Stats) float64 { return float64(s.Usage.Compactions) }),
		counter("store_compacted_bytes_total", "Bytes that compaction copied.", func(s Stats) float64 { return float64(s.Usage.CompactedBytes) }),
		counter("store_reclaimed_bytes_total", "Bytes that compaction gave back.", func(s Stats) float64 { return float64(s.Usage.ReclaimedBytes) }),
		counter("store_files_shed_total", "Files that the store kept open for speed and closed as the process had no file descriptor left.", func(s Stats) float64 { return float64(s.Files.Shed) }),
		counter("store_files_refused_total", "Files of the store that could not be opened as the process had no file descriptor left; each was answered with busy.", func(s Stats) float64 { return float64(s.Files.Refused) }),
		gauge("store_write_failed", "1 when the write side failed and waits for a restart.", func(s Stats) float64 {
			if s.WriteErr != nil {
				return 1
			}
			return 0
		}),
	)
	return m
}
