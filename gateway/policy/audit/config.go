package audit

import (
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config bounds the audit log.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Enabled  bool         `koanf:"enabled"`
	MaxBytes limits.Bytes `koanf:"max_bytes" hot:"true" disk:""`
	Keep     int          `koanf:"keep" hot:"true" disk:""`
}

// DefaultConfig returns an enabled log of 16 files of 64 MiB: 1 GiB at most.
func DefaultConfig() Config {
	return Config{Params: defaultParams(), Enabled: true, MaxBytes: 64 << 20, Keep: 16}
}

// Validate returns bad_request for the first key whose value is out of bounds.
func (c Config) Validate() error {
	switch {
	case c.MaxBytes < 64<<10:
		return status.Errorf(status.BadRequest, "audit.max_bytes must be at least 64KiB")
	case c.Keep < 2:
		return status.Errorf(status.BadRequest,
			"audit.keep must be at least 2: the file being written and the one before it")
	}
	return nil
}
