package sweep

import (
	"context"
	"iter"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Config bounds the sweep.
type Config struct {
	Interval time.Duration // duration of a cycle; at least 30 s
	MaxDelay time.Duration // how late a region may be if the network grew; above 0, at most Interval
	K        int           // peers that hold a record, 1 to 20
	Workers  int           // regions published at a time, 1 to 64
}

// Validate returns status.BadRequest with the first invalid field and its bounds.
func (c Config) Validate() error {
	switch {
	case c.Interval < 30*time.Second:
		return status.Errorf(status.BadRequest, "the sweep's interval is %s, below 30s", c.Interval)
	case c.MaxDelay <= 0 || c.MaxDelay > c.Interval:
		return status.Errorf(status.BadRequest,
			"the sweep's delay is %s, outside 0 to the interval, %s", c.MaxDelay, c.Interval)
	case c.K < 1 || c.K > 20:
		return status.Errorf(status.BadRequest, "the sweep sends a record to %d peers, outside 1 to 20", c.K)
	case c.Workers < 1 || c.Workers > 64:
		return status.Errorf(status.BadRequest, "the sweep has %d workers, outside 1 to 64", c.Workers)
	}
	return nil
}

// Router finds the peers closest to a key in the network. Its calls end with their context.
// The sweep uses at most the first K peers.
type Router interface {
	GetClosestPeers(ctx context.Context, key string) ([]peer.ID, error)
}

// Deps holds the dependencies of the sweep on the node.
type Deps struct {
	env.Env

	Self   peer.ID
	Router Router

	// Put sends a signed PUT to p. It returns nil once p has acknowledged it, and ends with ctx.
	Put func(ctx context.Context, p peer.ID, root b3.Root) error
	// Addrs returns this node's addresses. Without one, nothing is published.
	Addrs func() []ma.Multiaddr
	// Roots lists what to announce. Each call starts a new listing.
	Roots func() iter.Seq[b3.Root]

	// Datastore keeps the cycle across restarts. Nothing else may use it; give it a namespace.
	// The node closes it after Run has returned. nil: in memory; nothing is resumed, and
	// reading a region then takes a pass over all roots.
	Datastore ds.Batching
	// Replacements returns how often Datastore was replaced by an empty one. nil: never.
	Replacements func() uint64
}

func (d Deps) validate() error {
	if d.Self == "" || d.Router == nil || d.Put == nil || d.Addrs == nil || d.Roots == nil {
		return status.Errorf(status.BadRequest, "the sweep needs Self, Router, Put, Addrs and Roots")
	}
	return nil
}
