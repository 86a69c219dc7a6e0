package store

import (
	"fmt"
	"time"

	"allium/internal/limits"
	"allium/internal/ram"
	"allium/protocols/b3"
	"allium/store/bucket/s3"
	"allium/store/cache"
	"allium/store/quota"
	"allium/store/ram/arena"
)

// The values of Config.Backend.
const (
	BackendEmbedded = "embedded" // files in Config.Dir; FORMAT.md describes them
	BackendMemory   = "memory"   // RAM only; nothing survives the process
	BackendS3       = "s3"       // large objects in a bucket; the rest in Config.Dir, with copies in the bucket
)

// Config is the store's part of the configuration.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Backend string `koanf:"backend" disk:"memory"`
	Dir     string `koanf:"dir" disk:""`

	MemoryBytes  limits.Bytes `koanf:"memory_bytes"`
	ReserveBytes limits.Bytes `koanf:"reserve_bytes" disk:""`

	MaxBytes   limits.Bytes `koanf:"max_bytes" hot:"true"`
	MaxObjects int64        `koanf:"max_objects" hot:"true"`
	GCDuty     float64      `koanf:"gc_duty" hot:"true"`

	IndexCache limits.Bytes `koanf:"index_cache" disk:""`

	HotBytes limits.Bytes `koanf:"hot_bytes" disk:""`

	ScrubRate     limits.Bytes  `koanf:"scrub_rate" hot:"true" disk:""`
	ScrubInterval time.Duration `koanf:"scrub_interval" hot:"true" disk:""`
	RepairRate    limits.Bytes  `koanf:"repair_rate" hot:"nonzero" disk:""`

	Quotas []string `koanf:"quotas"`

	Puts      int64         `koanf:"puts" hot:"true"`
	Uploads   int64         `koanf:"uploads" hot:"true"`
	UploadTTL time.Duration `koanf:"upload_ttl" hot:"true"`

	S3 s3.Config `koanf:"s3"`
}

// DefaultConfig returns the defaults, with the embedded backend. The caller sets
// Dir.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		Backend:       BackendEmbedded,
		MemoryBytes:   256 << 20,
		ReserveBytes:  64 << 20,
		GCDuty:        0.25,
		HotBytes:      64 << 20,
		ScrubRate:     20 << 20,
		RepairRate:    50 << 20,
		ScrubInterval: 7 * 24 * time.Hour,
		Puts:          32,
		Uploads:       256,
		UploadTTL:     24 * time.Hour,
		S3:            s3.DefaultConfig(),
	}
}

// minIndexCache is the smallest valid IndexCache in bytes, apart from 0.
const minIndexCache = 1 << 20

// Caches returns how many bytes of RAM the store keeps blocks of the index in, and whole objects.
// An IndexCache of 0 is a share of the memory that the process may use, and HotBytes is at most one.
// The memory backend has neither.
func (c Config) Caches() (index, hot int64) {
	if c.Backend == BackendMemory {
		return 0, 0
	}
	mine := ram.Mine()
	index, hot = int64(c.IndexCache), min(int64(c.HotBytes), mine.Hot)
	if index == 0 {
		index = mine.Index
	}
	return index, hot
}

// Validate reports the first field that is out of its bounds.
func (c Config) Validate() error {
	switch c.Backend {
	case BackendMemory:
	case BackendEmbedded, BackendS3:
		if c.Dir == "" {
			return fmt.Errorf("store.dir is empty: the %s backend needs a directory", c.Backend)
		}
	default:
		return fmt.Errorf("store.backend is %q: must be %s, %s or %s",
			c.Backend, BackendEmbedded, BackendS3, BackendMemory)
	}
	if err := c.S3.Validate(c.Backend == BackendS3); err != nil {
		return err
	}
	if err := quota.Validate(c.Quotas); err != nil {
		return err
	}
	if !(c.GCDuty >= 0.01 && c.GCDuty <= 1) { // written so that NaN is refused too
		return fmt.Errorf("store.gc_duty is %g: must be from 0.01 to 1", c.GCDuty)
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
		{"puts", c.Puts, 1, 1 << 16},
		{"uploads", c.Uploads, 1, 1 << 16},
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
	if c.ScrubInterval < time.Minute {
		return fmt.Errorf("store.scrub_interval is %s: must be 1m at least", c.ScrubInterval)
	}
	if c.UploadTTL < time.Second || c.UploadTTL > 10*365*24*time.Hour {
		return fmt.Errorf("store.upload_ttl is %s: must be from 1s to 10 years", c.UploadTTL)
	}
	if c.IndexCache != 0 && c.IndexCache < minIndexCache || c.IndexCache > 1<<40 {
		return fmt.Errorf("store.index_cache is %d: must be 0 or from %d to %d",
			c.IndexCache, minIndexCache, int64(1<<40))
	}
	if c.HotBytes != 0 && c.HotBytes < cache.MinBytes || c.HotBytes > 1<<40 {
		return fmt.Errorf("store.hot_bytes is %d: must be 0 or from %d to %d", c.HotBytes, cache.MinBytes, int64(1<<40))
	}
	return nil
}
