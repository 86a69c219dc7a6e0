package hints

import (
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Config configures announcements by gossip. A change takes effect at the next start.
// node/config/keys.txt documents the keys.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	MaxBytes limits.Bytes `koanf:"max_bytes"`

	SyncInterval time.Duration `koanf:"sync_interval"`
}

// DefaultConfig returns the values for networks of any size.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		MaxBytes: 32 << 20, SyncInterval: 8 * time.Second,
	}
}

// Validate returns status.BadRequest with the first invalid key and its bounds.
func (c Config) Validate() error {
	if c.MaxBytes < 1<<20 || c.MaxBytes > 1<<40 {
		return status.Errorf(status.BadRequest, "announce.max_bytes is %d, outside %d to %d",
			c.MaxBytes, 1<<20, int64(1)<<40)
	}
	if c.SyncInterval < c.SyncSoon || c.SyncInterval > time.Hour {
		return status.Errorf(
			status.BadRequest,
			"announce.sync_interval is %s, outside %s to %s",
			c.SyncInterval,
			c.SyncSoon,
			time.Hour,
		)
	}
	return nil
}
