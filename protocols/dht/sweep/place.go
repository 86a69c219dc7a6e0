package sweep

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/protocols/kad"
	"allium/protocols/status"
)

// Bounds of the memory of a placer.
const (
	maxPeers    = 16 << 10         // peers of recent lookups
	maxPlaced   = 64 << 10         // roots of recent regions; beyond it, some are sent to their peers twice
	peerMemory  = time.Hour        // how long a peer is remembered
	placeMemory = 30 * time.Minute // how long a root is remembered; at most a quarter of the interval
	retryAfter  = 30 * time.Second // before a root that no peer took is tried again
	maxFails    = 3                // failures in a row after which a peer is skipped until it is seen again
)

// placer sends a root to the K peers closest to it among those that the library's lookups
// found.
//
// The library chooses the peers incorrectly. In a region whose prefix has d bits it compares a
// key's first bits with the peers' bits from d on (v0.42.2, AllocateToKClosest). Of 20 peers
// about 13 are then among the closest, and for some keys none. Its exploration is correct, so
// the placer knows all peers of a region before the region's first record is sent. The library
// sends K messages for a key. The placer publishes the key at the first one and returns the
// same result for the others.
type placer struct {
	run  context.Context
	k    int
	put  func(ctx context.Context, p peer.ID, root b3.Root) error
	done func(root b3.Root) // called when enough peers have acknowledged root
	m    *metrics

	mu    sync.Mutex // lock: leaf
	peers recent[peer.ID, *place]
	roots recent[b3.Root, *placed]
}

// place is the position of a peer in the key space.
type place struct {
	key   kad.Key
	fails int // in a row
}

// placed is the result of publishing a root.
type placed struct {
	end time.Time // zero: publishing has not ended
	err error
}

func newPlacer(run context.Context, cfg Config, deps Deps, done func(b3.Root), m *metrics) *placer {
	return &placer{
		run: run, k: cfg.K, put: deps.Put, done: done, m: m,
		peers: recent[peer.ID, *place]{most: maxPeers, life: peerMemory},
		roots: recent[b3.Root, *placed]{most: maxPlaced, life: min(placeMemory, cfg.Interval/4)},
	}
}

// saw records the peers of a lookup.
func (p *placer) saw(peers []peer.ID) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range peers {
		p.peers.put(id, &place{key: kad.Hash([]byte(id))}, now)
	}
}

// closest returns the K peers closest to root.
func (p *placer) closest(root b3.Root) []peer.ID {
	at := kad.Hash(root.Multihash())
	type candidate struct {
		id  peer.ID
		key kad.Key
	}
	best := make([]candidate, 0, p.k+1)
	p.mu.Lock()
	for id, c := range p.peers.all() {
		if c.fails >= maxFails || len(best) == p.k && at.Compare(best[p.k-1].key, c.key) <= 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(best, c.key,
			func(b candidate, key kad.Key) int { return at.Compare(b.key, key) })
		best = slices.Insert(best, i, candidate{id, c.key})
		best = best[:min(len(best), p.k)]
	}
	p.mu.Unlock()
	ids := make([]peer.ID, len(best))
	for i, b := range best {
		ids[i] = b.id
	}
	return ids
}

// publish sends root to its closest peers, unless that is being done or was done recently. It
// returns an error if fewer than a fifth of them took it. The library uses the same limit for a
// failed region.
func (p *placer) publish(ctx context.Context, root b3.Root) error {
	mine, err := p.claim(root)
	if !mine {
		return err
	}
	err = p.give(ctx, root)
	if err == nil {
		p.done(root)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roots.put(root, &placed{end: time.Now(), err: err}, time.Now())
	return err
}

// claim reports whether the caller must publish root. If not, it returns the last result.
func (p *placer) claim(root b3.Root) (mine bool, last error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if was, ok := p.roots.get(root, now); ok && (was.err == nil || now.Sub(was.end) < retryAfter) {
		return false, was.err
	}
	p.roots.put(root, &placed{}, now)
	return true, nil
}

// give sends root to its closest peers.
func (p *placer) give(ctx context.Context, root b3.Root) error {
	peers := p.closest(root)
	var acks atomic.Int64
	var last atomic.Pointer[error]
	var puts errgroup.Group
	puts.SetLimit(putsEach)
	for _, id := range peers {
		puts.Go(func() error {
			err := p.put(ctx, id, root)
			if err == nil {
				acks.Add(1)
				p.m.republish.WithLabelValues("ok").Inc()
			} else {
				last.Store(&err)
				if p.run.Err() == nil {
					p.m.republish.WithLabelValues("failed").Inc()
				}
			}
			p.judge(id, err == nil)
			return nil // the other peers still receive the record
		})
	}
	_ = puts.Wait() // no call returns an error
	switch n := int(acks.Load()); {
	case n > 0 && 5*n >= len(peers):
		return nil
	case last.Load() != nil:
		return status.Errorf(status.Of(*last.Load()), "%d of %d peers took %s: %w", n, len(peers), root, *last.Load())
	default:
		return errNoPeers
	}
}

// judge counts the result of a PUT.
func (p *placer) judge(id peer.ID, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, known := p.peers.get(id, time.Now())
	switch {
	case !known:
	case ok:
		c.fails = 0
	default:
		c.fails++
	}
}
