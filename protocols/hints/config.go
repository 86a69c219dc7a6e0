package hints

import (
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Config is the configuration of announcements by gossip. All of it is cold.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	MaxBytes limits.Bytes `koanf:"max_bytes"`

	SyncInterval time.Duration `koanf:"sync_interval"`
}

// DefaultConfig is for a node among thousands, and for five on a desk.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		MaxBytes: 32 << 20, SyncInterval: 8 * time.Second,
	}
}

// Validate returns status.BadRequest with the key that is wrong and its bounds.
func (c Config) Validate() error {
	if c.MaxBytes < 1<<20 || c.MaxBytes > 1<<40 {
		return status.Errorf(status.BadRequest, "announce.max_bytes is %d, outside %d to %d", c.MaxBytes, 1<<20, int64(1)<<40)
	}
	if c.SyncInterval < c.SyncSoon || c.SyncInterval > time.Hour {
		return status.Errorf(status.BadRequest, "announce.sync_interval is %s, outside %s to %s", c.SyncInterval, c.SyncSoon, time.Hour)
	}
	return nil
}
