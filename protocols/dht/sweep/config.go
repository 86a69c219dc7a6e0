package sweep

import (
	"context"
	"iter"
	"log/slog"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Config is the pace of the sweep.
type Config struct {
	Interval time.Duration // of a cycle; at least 30 s
	MaxDelay time.Duration // a region may come this much later when the network grew; above 0, at most Interval
	K        int           // peers that hold a record; between 1 and 20
	Workers  int           // regions published at one time; between 1 and 64
}

// Validate returns status.BadRequest with what is wrong and its bounds.
func (c Config) Validate() error {
	switch {
	case c.Interval < 30*time.Second:
		return status.Errorf(status.BadRequest, "sweep: an interval of %s, below 30s", c.Interval)
	case c.MaxDelay <= 0 || c.MaxDelay > c.Interval:
		return status.Errorf(status.BadRequest, "sweep: a delay of %s, outside 0 to the interval, %s", c.MaxDelay, c.Interval)
	case c.K < 1 || c.K > 20:
		return status.Errorf(status.BadRequest, "sweep: %d peers for a record, outside 1 to 20", c.K)
	case c.Workers < 1 || c.Workers > 64:
		return status.Errorf(status.BadRequest, "sweep: %d workers, outside 1 to 64", c.Workers)
	}
	return nil
}

// Router finds the peers closest to a key in the network. Its calls end with
// their context; at most the first K peers are used.
type Router interface {
	GetClosestPeers(ctx context.Context, key string) ([]peer.ID, error)
}

// Deps is what the sweep needs from the node.
type Deps struct {
	Self   peer.ID
	Router Router
	Put    func(ctx context.Context, p peer.ID, root b3.Root) error // a signed PUT; nil once p has acknowledged it; ends with ctx
	Addrs  func() []ma.Multiaddr                                    // this node's addresses; without one nothing is published
	Roots  func() iter.Seq[b3.Root]                                 // what should be announced, listed anew at every call

	// Datastore keeps the cycle over restarts and is the sweep's alone (give it
	// a namespace). It is closed by the caller after Run has returned. Nil: in
	// memory, nothing is resumed; reading a region then costs a walk over all
	// roots.
	Datastore ds.Batching
	Renewed   func() uint64 // how often Datastore was replaced by one without what was written before; nil: never

	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: not registered
}

func (d Deps) validate() error {
	if d.Self == "" || d.Router == nil || d.Put == nil || d.Addrs == nil || d.Roots == nil {
		return status.Errorf(status.BadRequest, "sweep: Self, Router, Put, Addrs and Roots are needed")
	}
	return nil
}
