package store

import (
	"fmt"
	"time"

	"allium/store/segment/record"

	"allium/internal/limits"
	"allium/internal/ram"
	"allium/protocols/b3"
	"allium/store/arena"
	"allium/store/bucket"
	"allium/store/cache"
	"allium/store/meta"
	"allium/store/quota"
)

// The backends.
const (
	BackendEmbedded = "embedded" // files in Config.Dir, see FORMAT.md
	BackendMemory   = "memory"   // RAM only, nothing survives
	BackendS3       = "s3"       // large objects in a bucket, the rest in Config.Dir and copied there
)

// Config is the store's part of the configuration.
type Config struct {
	Backend string `koanf:"backend" doc:"where objects live: embedded (files), s3 (a bucket; index and outboards are files) or memory (RAM, nothing survives)" disk:"memory"`
	Dir     string `koanf:"dir" doc:"directory of the embedded and the s3 backend, below the home directory when it is relative; created when it does not exist" disk:""`

	MemoryBytes  limits.Bytes `koanf:"memory_bytes" doc:"hard cap in bytes on what the memory backend holds, in blocks of 1 KiB; above it puts get no_space; the list of objects, about 100 bytes each, comes on top"`
	ReserveBytes limits.Bytes `koanf:"reserve_bytes" doc:"bytes that writes leave free on the disk, so that the index can always be written; below it puts get no_space" disk:""`

	MaxBytes   limits.Bytes `koanf:"max_bytes" doc:"most bytes that the store holds, outboards and partial objects included; what nothing pins is evicted, least recently used first, before it is reached; objects in a bucket count like those on the disk; 0 is what the disk has beyond the reserve, and no bound of what is in a bucket"`
	MaxObjects int64        `koanf:"max_objects" doc:"most objects that the store holds; 0 is no bound"`
	LowWater   float64      `koanf:"low_water" doc:"share of the bound at which an eviction ends; it begins half-way between this and the bound"`
	GCDuty     float64      `koanf:"gc_duty" doc:"share of the time that a garbage collection works; it takes all of it while a put waits for room"`

	SegmentBytes   limits.Bytes `koanf:"segment_bytes" doc:"size in bytes at which the segment of small objects is closed and the next begun" disk:""`
	ZeroAheadBytes limits.Bytes `koanf:"zero_ahead_bytes" doc:"most bytes written as zeros ahead of the end of the segment, so that commits need no metadata; 0 turns it off" disk:""`
	CommitBytes    limits.Bytes `koanf:"commit_bytes" doc:"bytes of small objects waiting for a commit; further puts wait" disk:""`
	CompactRate    limits.Bytes `koanf:"compact_rate" doc:"bytes a second that the compaction of segments moves at most; when space is short it does not wait" disk:""`
	IndexCache     limits.Bytes `koanf:"index_cache" doc:"bytes of the index kept in RAM beside its write buffer; 0 is a 64th of the memory that the process may use, from 8 MiB to 256 MiB" disk:""`

	HotBytes limits.Bytes `koanf:"hot_bytes" doc:"bytes of verified objects up to 256 KiB kept in RAM above the disk, 0 for none, else 1 MiB at least; the memory backend needs none" disk:""`

	ScrubRate     limits.Bytes  `koanf:"scrub_rate" doc:"bytes a second that the background check of all objects reads at most, 0 turns it off; the memory backend needs none, and the s3 backend checks what is in the directory, not what is in the bucket (allium verify --all does)" disk:""`
	ScrubDuty     float64       `koanf:"scrub_duty" doc:"share of the time that the background check works at most, above 0 and up to 1" disk:""`
	ScrubInterval time.Duration `koanf:"scrub_interval" doc:"how often the background check begins anew, 1m at least" disk:""`
	RepairRate    limits.Bytes  `koanf:"repair_rate" doc:"bytes a second at which a node fetches damaged objects again at most, 0 turns it off" disk:""`

	Quotas []string `koanf:"quotas" doc:"what the pins of a label may lead to, label=bytes or label=bytes/objects; the label * is each other one, and the empty label pins without one. What an object counts does not depend on what else holds it. With quotas, opening the store reads the directories below its pins"`

	Puts        int64         `koanf:"puts" doc:"streaming puts running at once, about 1 MiB of RAM each; further ones wait"`
	PutsWait    int64         `koanf:"puts_wait" doc:"streaming puts waiting to run; the next gets busy"`
	Ingests     int64         `koanf:"ingests" doc:"downloads being written at once, at most 64 KiB of RAM and two files each; further ones wait"`
	IngestsWait int64         `koanf:"ingests_wait" doc:"downloads waiting to be written; the next gets busy"`
	Uploads     int64         `koanf:"uploads" doc:"uploads in pieces (/u) that are not whole, running or not; the next one gets busy. Each has the room for all of its bytes from the start"`
	UploadTTL   time.Duration `koanf:"upload_ttl" doc:"how long an upload is kept after its last bytes, over restarts, and what became of it after it is whole"`

	HashWorkers int `koanf:"hash_workers" doc:"goroutines that hash one streaming put"`

	S3 bucket.Config `koanf:"s3"`
}

// DefaultConfig is the embedded backend; Dir is left to the caller.
func DefaultConfig() Config {
	return Config{
		Backend:        BackendEmbedded,
		MemoryBytes:    256 << 20,
		ReserveBytes:   64 << 20,
		LowWater:       0.9,
		GCDuty:         0.25,
		SegmentBytes:   256 << 20,
		ZeroAheadBytes: 32 << 20,
		CommitBytes:    8 << 20,
		CompactRate:    32 << 20,
		IndexCache:     0, // by the memory there is
		HotBytes:       64 << 20,
		ScrubRate:      20 << 20,
		RepairRate:     50 << 20,
		ScrubDuty:      0.1,
		ScrubInterval:  7 * 24 * time.Hour,
		Puts:           32,
		PutsWait:       512,
		Ingests:        256,
		IngestsWait:    4096,
		HashWorkers:    2,
		Uploads:        256,
		UploadTTL:      24 * time.Hour,
		S3:             bucket.DefaultConfig(),
	}
}

// minIndexCache is the smallest cache of the index that can be asked for.
const minIndexCache = 1 << 20

// indexCache is how many bytes of the index are kept in RAM.
func (c Config) indexCache() int64 {
	if c.IndexCache != 0 {
		return int64(c.IndexCache)
	}
	return ram.Share(64, 8<<20, 256<<20)
}

// minCommitBytes has room for a batch that is being written and one of the
// largest record beside it.
const minCommitBytes = 4 * record.MaxSize

// Validate reports the first field that is out of its bounds.
func (c Config) Validate() error {
	switch c.Backend {
	case BackendMemory:
	case BackendEmbedded, BackendS3:
		if c.Dir == "" {
			return fmt.Errorf("store.dir is empty: the %s backend needs a directory", c.Backend)
		}
	default:
		return fmt.Errorf("store.backend is %q: must be %s, %s or %s", c.Backend, BackendEmbedded, BackendS3, BackendMemory)
	}
	if err := c.S3.Validate(c.Backend == BackendS3); err != nil {
		return err
	}
	if err := quota.Validate(c.Quotas); err != nil {
		return err
	}
	for _, n := range []struct {
		key      string
		n        float64
		min, max float64
	}{
		{"low_water", c.LowWater, 0.1, 0.99},
		{"gc_duty", c.GCDuty, 0.01, 1},
	} {
		if !(n.n >= n.min && n.n <= n.max) { // NaN is out of them too
			return fmt.Errorf("store.%s is %g: must be from %g to %g", n.key, n.n, n.min, n.max)
		}
	}
	for _, n := range []struct {
		key      string
		n        int64
		min, max int64
	}{
		{"memory_bytes", int64(c.MemoryBytes), b3.GroupSize, arena.MaxLimit},
		{"reserve_bytes", int64(c.ReserveBytes), 0, 1 << 62},
		{"max_bytes", int64(c.MaxBytes), 0, 1 << 62},
		{"max_objects", c.MaxObjects, 0, 1 << 48},
		{"segment_bytes", int64(c.SegmentBytes), 2 * int64(c.CommitBytes), meta.MaxSegmentBytes}, // a batch, half of commit_bytes, is never split over two
		{"zero_ahead_bytes", int64(c.ZeroAheadBytes), 0, int64(c.SegmentBytes)},
		{"commit_bytes", int64(c.CommitBytes), minCommitBytes, 1 << 30},
		{"compact_rate", int64(c.CompactRate), 64 << 10, 1 << 40},
		{"puts", c.Puts, 1, 1 << 16},
		{"puts_wait", c.PutsWait, 0, 1 << 20},
		{"ingests", c.Ingests, 1, 1 << 16},
		{"ingests_wait", c.IngestsWait, 0, 1 << 20},
		{"uploads", c.Uploads, 1, 1 << 16},
		{"hash_workers", int64(c.HashWorkers), 1, 64},
	} {
		if n.n < n.min || n.n > n.max {
			return fmt.Errorf("store.%s is %d: must be from %d to %d", n.key, n.n, n.min, n.max)
		}
	}
	if c.RepairRate < 0 || c.RepairRate > 0 && c.RepairRate < b3.GroupSize {
		return fmt.Errorf("store.repair_rate is %d: must be 0 or at least %d", c.RepairRate, b3.GroupSize)
	}
	if c.ScrubRate < 0 {
		return fmt.Errorf("store.scrub_rate is %d: must not be negative", c.ScrubRate)
	}
	if !(c.ScrubDuty > 0 && c.ScrubDuty <= 1) {
		return fmt.Errorf("store.scrub_duty is %g: must be above 0 and at most 1", c.ScrubDuty)
	}
	if c.ScrubInterval < time.Minute {
		return fmt.Errorf("store.scrub_interval is %s: must be 1m at least", c.ScrubInterval)
	}
	if c.UploadTTL < time.Second || c.UploadTTL > 10*365*24*time.Hour {
		return fmt.Errorf("store.upload_ttl is %s: must be from 1s to 10 years", c.UploadTTL)
	}
	if c.IndexCache != 0 && c.IndexCache < minIndexCache || c.IndexCache > 1<<40 {
		return fmt.Errorf("store.index_cache is %d: must be 0 or from %d to %d", c.IndexCache, minIndexCache, int64(1<<40))
	}
	if c.HotBytes != 0 && c.HotBytes < cache.MinBytes || c.HotBytes > 1<<40 {
		return fmt.Errorf("store.hot_bytes is %d: must be 0 or from %d to %d", c.HotBytes, cache.MinBytes, int64(1<<40))
	}
	return nil
}
