package gossip

import (
	"fmt"
	"time"
)

// MaxMessage is the most bytes of data one message carries (SPEC §4).
const MaxMessage = 64 << 10

// frameBytes of a message count as one frame of a budget, or what is begun of
// them: a budget of messages alone would let in 64 KiB for the price of one byte.
const frameBytes = 1 << 10

// maxCost is what the largest message costs.
const maxCost = MaxMessage / frameBytes

// Config bounds what gossip costs a node. Every field has a default.
type Config struct {
	RelayFanout  int64 `koanf:"relay_fanout" doc:"peers of each topic to which messages are relayed at once (the degree of the mesh); 2 to 32"`
	FloodPublish bool  `koanf:"flood_publish" doc:"send own messages to every peer of the topic, not only to relay_fanout of them: faster, and peers that keep silent cannot hide this node; costs upload"`

	BurstFrames int64         `koanf:"burst_frames" doc:"frames one peer may bring in a burst, and this node publish; a frame is a message, or each KiB begun of a larger one; more are dropped; at least 64, one largest message"`
	PeerRate    int64         `koanf:"peer_rate" doc:"frames per second one peer may bring after its burst; more are dropped"`
	TotalRate   int64         `koanf:"total_rate" doc:"frames per second that all peers together may bring, with as many in a burst; more are dropped; at least burst_frames"`
	PublishRate int64         `koanf:"publish_rate" doc:"frames per second this node publishes after its burst; more wait, then get rate_limit"`
	PublishWait time.Duration `koanf:"publish_wait" doc:"longest wait of a publication for its turn; then rate_limit"`

	PublishQueue    int64         `koanf:"publish_queue" doc:"publications waiting to be signed and sent; the next is refused with busy"`
	PeerQueue       int64         `koanf:"peer_queue" doc:"messages waiting to be sent to one peer; more are dropped"`
	ValidateQueue   int64         `koanf:"validate_queue" doc:"messages of all peers waiting for their signature to be checked; more are dropped"`
	Validators      int64         `koanf:"validators" doc:"messages of one topic being validated at once; more are dropped"`
	ValidateTimeout time.Duration `koanf:"validate_timeout" doc:"longest time to validate one message; it is ignored afterwards"`

	Ingress       int64         `koanf:"ingress" doc:"accepted messages of all topics waiting for a worker; more are dropped"`
	Workers       int64         `koanf:"workers" doc:"accepted messages being handled at once"`
	HandleTimeout time.Duration `koanf:"handle_timeout" doc:"longest time to handle one message"`
}

// DefaultConfig returns the limits of SPEC §2 and §4.
func DefaultConfig() Config {
	return Config{
		RelayFanout:  8,
		FloodPublish: true,

		BurstFrames: 64,
		PeerRate:    256,
		TotalRate:   2048,
		PublishRate: 128,
		PublishWait: time.Second,

		PublishQueue:    128,
		PeerQueue:       128,
		ValidateQueue:   512,
		Validators:      32,
		ValidateTimeout: 100 * time.Millisecond,

		Ingress:       512,
		Workers:       4,
		HandleTimeout: time.Second,
	}
}

// Validate reports the first field that is out of its bounds.
func (c Config) Validate() error {
	for _, d := range []struct {
		key string
		d   time.Duration
	}{
		{"publish_wait", c.PublishWait}, {"validate_timeout", c.ValidateTimeout}, {"handle_timeout", c.HandleTimeout},
	} {
		if d.d < time.Millisecond || d.d > time.Minute {
			return fmt.Errorf("gossip.%s is %s: must be between 1ms and 1m", d.key, d.d)
		}
	}
	for _, n := range []struct {
		key         string
		n, min, max int64
	}{
		{"relay_fanout", c.RelayFanout, 2, 32},
		{"burst_frames", c.BurstFrames, maxCost, 1 << 16},
		{"peer_rate", c.PeerRate, 1, 1 << 16},
		{"total_rate", c.TotalRate, c.BurstFrames, 1 << 20},
		{"publish_rate", c.PublishRate, 1, 1 << 16},
		{"publish_queue", c.PublishQueue, 1, 1 << 16},
		{"peer_queue", c.PeerQueue, 16, 1 << 16},
		{"validate_queue", c.ValidateQueue, 1, 1 << 16},
		{"validators", c.Validators, 1, 1 << 12},
		{"ingress", c.Ingress, 1, 1 << 16},
		{"workers", c.Workers, 1, 1 << 10},
	} {
		if n.n < n.min || n.n > n.max {
			return fmt.Errorf("gossip.%s is %d: must be between %d and %d", n.key, n.n, n.min, n.max)
		}
	}
	return nil
}

// cost is the frames that n bytes of data take from a budget.
func cost(n int) int { return max(1, (n+frameBytes-1)/frameBytes) }
