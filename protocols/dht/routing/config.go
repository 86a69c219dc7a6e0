package routing

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/env"
	"allium/protocols/status"
)

// Config bounds the table.
type Config struct {
	K          int           // most entries of a bucket, 1 to 256
	GroupShare float64       // share of K that one group may take, above 0 and at most 1
	StaleAfter time.Duration // an entry silent for this long may be replaced in a full bucket; above 0
}

// Validate returns status.BadRequest with the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.K < 1 || c.K > maxK:
		return status.Errorf(status.BadRequest, "K is %d, outside 1 to %d", c.K, maxK)
	case !(c.GroupShare > 0 && c.GroupShare <= 1): // also refuses NaN
		return status.Errorf(status.BadRequest, "GroupShare is %v, it must be above 0 and at most 1", c.GroupShare)
	case c.StaleAfter <= 0:
		return status.Errorf(status.BadRequest, "StaleAfter is %s, it must be above 0", c.StaleAfter)
	}
	return nil
}

// GroupCap returns how many entries of a bucket may share a group, at least 1.
func (c Config) GroupCap() int {
	return max(1, int(c.GroupShare*float64(c.K)+1e-9)) // 0.29 × 100 is 28.999999999999996
}

// Deps holds the dependencies of the table on the node. The writers call Addrs and Connected, which
// must not wait.
type Deps struct {
	env.Env

	Self peer.ID

	// Addrs returns the remote addresses of the peer's connections, or else its known
	// addresses. A peer cannot forge the former. It chooses its groups if only the latter
	// exist.
	Addrs     func(peer.ID) []ma.Multiaddr
	Connected func(peer.ID) bool
}

// Bounds that are not configured.
const (
	bucketCount  = 32                     // the last bucket holds all longer common prefixes
	queueSize    = 1024                   // updates that wait for a bucket's writer (SPEC §2)
	sendTimeout  = 100 * time.Millisecond // wait for a place in that queue (SPEC §2)
	maxK         = 256                    // entries of a bucket
	maxFails     = 3                      // failures in a row after which a connected peer is removed
	regroupAfter = time.Minute            // interval at which the groups of an entry are computed again
)
