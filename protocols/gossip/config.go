package gossip

import "fmt"

// MaxMessage is the most bytes of data one message carries (SPEC §4).
const MaxMessage = 64 << 10

// frameBytes is the size of a frame of a budget. A message costs a frame for each frameBytes or part
// of them, and at least one. A budget that counted messages would charge 64 KiB like one byte.
const frameBytes = 1 << 10

// Config holds the limits and switches of gossip. [DefaultConfig] sets every field.
// node/config/keys.txt describes each key.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	RelayFanout  int64 `koanf:"relay_fanout"`  // mesh peers to which messages are relayed
	FloodPublish bool  `koanf:"flood_publish"` // send own messages to all subscribers, not to the mesh alone

	TotalRate int64 `koanf:"total_rate"` // frames per second from all peers together
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

// cost returns the frames that n bytes of data take from a budget.
func cost(n int) int { return max(1, (n+frameBytes-1)/frameBytes) }
