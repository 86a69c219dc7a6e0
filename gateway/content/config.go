package content

import (
	"time"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Config bounds how content is found and served.
type Config struct {
	Misses           int64         `koanf:"misses" doc:"requests that ask the network at once for what is not here"`
	MissesWaiting    int64         `koanf:"misses_waiting" doc:"requests that wait for one of them to end; the next is refused with busy"`
	MissesPerIP      int           `koanf:"misses_per_ip" doc:"requests of one IPv4 address or IPv6 /64 that ask the network, or wait for a place of all; the next waits in line, up to misses_waiting of all clients, and is refused with busy beyond; 0 is no limit"`
	FirstByteTimeout time.Duration `koanf:"first_byte_timeout" doc:"how long content may take to be found, and to stand still while it arrives; then timeout"`
	MultiRange       int           `koanf:"multi_range" doc:"most ranges of an object that one request may ask for, up to 32; more are bad_range; with 0 or 1 it is one"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{Misses: 128, MissesWaiting: 512, MissesPerIP: 64, FirstByteTimeout: 5 * time.Second}
}

// Validate returns bad_request naming the first key that makes no sense.
func (c Config) Validate() error {
	if err := exchange.CheckKeys(map[string]bool{
		"misses": c.Misses >= 1, "misses_waiting": c.MissesWaiting >= 0, "misses_per_ip": c.MissesPerIP >= 0,
		"first_byte_timeout": c.FirstByteTimeout > 0,
	}); err != nil {
		return err
	}
	if c.MultiRange < 0 || c.MultiRange > MaxRanges {
		return status.Errorf(status.BadRequest, "gateway.multi_range is %d, want 0 to %d", c.MultiRange, MaxRanges)
	}
	return exchange.CheckPerIP("misses_per_ip", int64(c.MissesPerIP))
}
