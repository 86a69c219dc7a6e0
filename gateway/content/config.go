package content

import (
	"time"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Config limits how content is found and served.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Fetches          int64         `koanf:"misses" hot:"true"`
	FetchesPerIP     int           `koanf:"misses_per_ip" hot:"true"`
	FirstByteTimeout time.Duration `koanf:"first_byte_timeout" hot:"true"`
	MultiRange       int           `koanf:"multi_range" hot:"true"`
	OpenProofs       bool          `koanf:"open_proofs" hot:"true"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(), Fetches: 128, FetchesPerIP: 64, FirstByteTimeout: 5 * time.Second, OpenProofs: true,
	}
}

// Validate returns bad_request and names the first key with an invalid value.
func (c Config) Validate() error {
	if err := exchange.CheckMinimums(map[string]bool{
		"misses": c.Fetches >= 1, "misses_per_ip": c.FetchesPerIP >= 0,
		"first_byte_timeout": c.FirstByteTimeout > 0,
	}); err != nil {
		return err
	}
	if c.MultiRange < 0 || c.MultiRange > MaxRanges {
		return status.Errorf(status.BadRequest, "gateway.multi_range is %d. Set it to a number from 0 to %d",
			c.MultiRange, MaxRanges)
	}
	return exchange.CheckPerIP("misses_per_ip", int64(c.FetchesPerIP))
}
