package allowance

import (
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config bounds the discovery requests that a node answers.
// node/config/keys.txt documents the keys.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	Rate     int `koanf:"rate" hot:"true"`
	Inflight int `koanf:"inflight" hot:"true"`
}

// DefaultConfig returns the numbers of SPEC §2.
func DefaultConfig() Config {
	return Config{Params: defaultParams(), Rate: 3000, Inflight: 1024}
}

// Validate returns status.BadRequest with the first invalid key and its bounds.
func (c Config) Validate() error {
	for _, b := range []struct {
		key        string
		v, lo, top int64
	}{
		{"rate", int64(c.Rate), 1, 1_000_000},
		{"inflight", int64(c.Inflight), 1, 1_000_000},
	} {
		if b.v < b.lo || b.v > b.top {
			return status.Errorf(status.BadRequest, "dht.guard.%s is %d, outside %d to %d", b.key, b.v, b.lo, b.top)
		}
	}
	return nil
}

// workers returns the number of requests processed at a time. The work is a lookup in the
// routing table, or a record to verify or sign. More than a few for each processor would
// only wait for each other.
func (c Config) workers(cores int) int64 {
	if c.Workers > 0 {
		return int64(c.Workers)
	}
	return 4 * int64(cores)
}

// perSecond returns the rate of requests of all peers.
func (c Config) perSecond() limits.FairRateConfig {
	return limits.FairRateConfig{PerSecond: float64(c.Rate), Burst: c.Rate}
}
