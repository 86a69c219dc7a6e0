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

// Bounds of what a placer remembers.
const (
	maxPeers    = 16 << 10         // peers of recent lookups
	maxPlaced   = 64 << 10         // roots of recent regions; beyond, some are given to their peers twice
	peerMemory  = time.Hour        // at most
	placeMemory = 30 * time.Minute // at most; a quarter of the interval if that is less
	retryAfter  = 30 * time.Second // a root that nobody took
	maxFails    = 3                // in a row; then the next closest has the peer's place until it is seen again
)

// placer gives a root to the K peers closest to it among those that the
// library's lookups found.
//
// The library chooses the peers itself, and wrongly: in a region whose prefix
// has d bits it compares a key's first bits with the peers' bits from d on
// (v0.42.2, AllocateToKClosest), so that of 20 peers some 13 are among the
// closest, and for some keys none. Its exploration is right, so all the peers
// are known here when it sends its first record of a region. Each of its K
// messages for a key is taken as "publish this key now": the first does, the
// others have its result.
type placer struct {
	run  context.Context
	k    int
	put  func(ctx context.Context, p peer.ID, root b3.Root) error
	done func(root b3.Root) // enough peers have acknowledged root
	m    *metrics

	mu    sync.Mutex
	peers recent[peer.ID, *place]
	roots recent[b3.Root, *placed]
}

// place is where a peer is in the key space.
type place struct {
	key   kad.Key
	fails int // in a row
}

// placed is how publishing a root went.
type placed struct {
	end time.Time // zero: not over yet
	err error
}

func newPlacer(run context.Context, cfg Config, deps Deps, done func(b3.Root), m *metrics) *placer {
	return &placer{
		run: run, k: cfg.K, put: deps.Put, done: done, m: m,
		peers: recent[peer.ID, *place]{most: maxPeers, life: peerMemory},
		roots: recent[b3.Root, *placed]{most: maxPlaced, life: min(placeMemory, cfg.Interval/4)},
	}
}

// saw notes the peers of a lookup.
func (p *placer) saw(peers []peer.ID) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range peers {
		p.peers.put(id, &place{key: kad.Hash([]byte(id))}, now)
	}
}

// closest lists the K peers closest to root.
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
		i, _ := slices.BinarySearchFunc(best, c.key, func(b candidate, key kad.Key) int { return at.Compare(b.key, key) })
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

// publish gives root to its closest peers, unless that is being done or was
// done lately. An error says that fewer than a fifth of them took it, which is
// also where the library takes a region for failed.
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

// claim says that publishing root is the caller's to do, or how the last went.
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
			return nil // one peer's refusal does not stop the others
		})
	}
	_ = puts.Wait() // no call returns an error
	switch n := int(acks.Load()); {
	case n > 0 && 5*n >= len(peers):
		return nil
	case last.Load() != nil:
		return status.Errorf(status.Of(*last.Load()), "sweep: %d of %d peers took %s: %w", n, len(peers), root, *last.Load())
	default:
		return errNoPeers
	}
}

// judge counts what became of a PUT.
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
