package gossip

import (
	"fmt"
)

// MaxMessage is the most bytes of data one message carries (SPEC §4).
const MaxMessage = 64 << 10

// frameBytes of a message count as one frame of a budget, or what is begun of
// them: a budget of messages alone would let in 64 KiB for the price of one byte.
const frameBytes = 1 << 10

// maxCost is what the largest message costs.
const maxCost = MaxMessage / frameBytes

// Config bounds what gossip costs a node. Every field has a default.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	RelayFanout  int64 `koanf:"relay_fanout"`
	FloodPublish bool  `koanf:"flood_publish"`

	TotalRate int64 `koanf:"total_rate"`
}

// DefaultConfig returns the limits of SPEC §2 and §4.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		RelayFanout:  8,
		FloodPublish: true,

		TotalRate: 2048,
	}
}

// Validate reports the first field that is out of its bounds.
func (c Config) Validate() error {
	for _, n := range []struct {
		key         string
		n, min, max int64
	}{
		{"relay_fanout", c.RelayFanout, 2, 32},
		{"total_rate", c.TotalRate, c.BurstFrames, 1 << 20},
	} {
		if n.n < n.min || n.n > n.max {
			return fmt.Errorf("gossip.%s is %d: must be between %d and %d", n.key, n.n, n.min, n.max)
		}
	}
	return nil
}

// cost is the frames that n bytes of data take from a budget.
func cost(n int) int { return max(1, (n+frameBytes-1)/frameBytes) }
