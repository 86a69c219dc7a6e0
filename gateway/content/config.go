package content

import (
	"time"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Config bounds how content is found and served.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Misses           int64         `koanf:"misses"`
	MissesPerIP      int           `koanf:"misses_per_ip"`
	FirstByteTimeout time.Duration `koanf:"first_byte_timeout"`
	MultiRange       int           `koanf:"multi_range"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{Params: defaultParams(), Misses: 128, MissesPerIP: 64, FirstByteTimeout: 5 * time.Second}
}

// Validate returns bad_request naming the first key that makes no sense.
func (c Config) Validate() error {
	if err := exchange.CheckKeys(map[string]bool{
		"misses": c.Misses >= 1, "misses_per_ip": c.MissesPerIP >= 0,
		"first_byte_timeout": c.FirstByteTimeout > 0,
	}); err != nil {
		return err
	}
	if c.MultiRange < 0 || c.MultiRange > MaxRanges {
		return status.Errorf(status.BadRequest, "gateway.multi_range is %d, want 0 to %d", c.MultiRange, MaxRanges)
	}
	return exchange.CheckPerIP("misses_per_ip", int64(c.MissesPerIP))
}
