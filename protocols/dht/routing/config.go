package routing

import (
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Config is how the table chooses its peers.
type Config struct {
	K          int           // entries of a bucket; between 1 and 256
	GroupShare float64       // of K that one group may take; above 0, at most 1
	StaleAfter time.Duration // not heard of for so long, an entry of a full bucket gives way to a peer that answers; above 0
}

// Default returns the numbers of SPEC §2.
func Default() Config { return Config{K: 20, GroupShare: 0.4, StaleAfter: 10 * time.Minute} }

// Validate returns status.BadRequest with the field that is out of bounds.
func (c Config) Validate() error {
	switch {
	case c.K < 1 || c.K > maxK:
		return status.Errorf(status.BadRequest, "routing: K is %d, outside 1 to %d", c.K, maxK)
	case !(c.GroupShare > 0 && c.GroupShare <= 1): // NaN is neither
		return status.Errorf(status.BadRequest, "routing: GroupShare is %v, it must be above 0 and at most 1", c.GroupShare)
	case c.StaleAfter <= 0:
		return status.Errorf(status.BadRequest, "routing: StaleAfter is %s, it must be above 0", c.StaleAfter)
	}
	return nil
}

// GroupCap is how many entries of a bucket may share a group, at least 1.
func (c Config) GroupCap() int {
	return max(1, int(c.GroupShare*float64(c.K)+1e-9)) // 0.29 × 100 is 28.999999999999996
}

// Deps is what the table needs from the node. The writers call Addrs and
// Connected, which may not wait for anything.
type Deps struct {
	Self peer.ID

	// Addrs are the remote addresses of the peer's connections if there are any,
	// else those that are known. The former cannot lie; with the latter a peer
	// chooses its groups itself.
	Addrs     func(peer.ID) []ma.Multiaddr
	Connected func(peer.ID) bool

	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
	Limits  *limits.Registry      // nil: the queues work and are listed nowhere
}

// The bounds that are not configured.
const (
	bucketCount  = 32                     // the last one is for all longer common prefixes
	queueSize    = 1024                   // updates waiting for the writer of a bucket (SPEC §2)
	sendTimeout  = 100 * time.Millisecond // wait for room in that queue (SPEC §2)
	maxK         = 256                    // entries of a bucket
	maxFails     = 3                      // in a row, of a connected peer; then it goes
	regroupAfter = time.Minute            // how long the groups of an entry hold before its addresses are looked at again
)
