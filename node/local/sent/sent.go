package sent

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
)

// MaxObjects is the most objects of a tree that can be followed.
const MaxObjects = 1 << 16

// A peer that does not have all of it when it was sent something last may have it soon: the last bytes are on their
// way, and then it makes them durable. It is asked again after firstAsk, doubled each time, and maxAsks times in all.
const (
	firstAsk = 250 * time.Millisecond
	maxAsks  = 9 // over a minute
)

const (
	maxPeers  = 128 // peers whose progress is remembered, the latest
	maxRanges = 256 // ranges of partly sent objects that are remembered for a peer; beyond it, the peer is asked
)

// Log passes on what the object server has sent to the Watch, if there is one. The zero value is ready.
type Log struct{ watch atomic.Pointer[Watch] }

// Peer is a peer, and the address of the connection over which it was sent something last.
type Peer struct {
	ID   peer.ID
	Addr ma.Multiaddr
}

// Sent reports that a peer was sent ranges of an object. size is in bytes.
func (l *Log) Sent(p Peer, root b3.Root, size int64, ranges []b3.Range) {
	if w := l.watch.Load(); w != nil {
		w.sent(p, root, size, ranges)
	}
}

// Watch begins to follow the objects of a tree in place of those before. objects has their sizes in bytes. It is empty
// for a tree of more than MaxObjects: such a tree is not watched.
func (l *Log) Watch(objects map[b3.Root]int64) (*Watch, error) {
	w := &Watch{index: make(map[b3.Root]int, len(objects)), wake: make(chan struct{}, 1)}
	for root, size := range objects {
		if size > 0 || len(objects) == 1 {
			w.index[root] = len(w.index)
		}
	}
	var err error
	if w.peers, err = simplelru.NewLRU[peer.ID, *progress](maxPeers, nil); err != nil {
		return nil, err
	}
	l.watch.Store(w)
	return w, nil
}

// Watch follows which peers have got all of a tree.
type Watch struct {
	index map[b3.Root]int // of the objects with content; never changed
	wake  chan struct{}   // tells Run that a peer has news

	mu    sync.Mutex // guards peers and all progress; lock: leaf
	peers *simplelru.LRU[peer.ID, *progress]
}

// progress records the objects and ranges that one peer has received.
type progress struct {
	addr    ma.Multiaddr
	whole   []uint64               // a bit for each object that was sent whole
	left    int                    // objects that were not
	partial map[b3.Root][]b3.Range // sorted and apart; nil if there were too many
	ranges  int                    // of partial

	news  bool // something was sent since Run looked
	asked int  // how often the peer was asked since then
	due   time.Time
	told  bool
}

func (w *Watch) sent(p Peer, root b3.Root, size int64, ranges []b3.Range) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ours := w.index[root]
	if !ours {
		return
	}
	g, ok := w.peers.Get(p.ID)
	if !ok {
		g = &progress{
			whole: make([]uint64, (len(w.index)+63)/64), left: len(w.index), partial: map[b3.Root][]b3.Range{},
		}
		w.peers.Add(p.ID, g)
	}
	g.addr = p.Addr
	if g.told {
		return
	}
	if g.whole[at/64]>>(at%64)&1 == 0 && g.add(root, size, ranges) {
		g.whole[at/64] |= 1 << (at % 64)
		g.left--
	}
	g.news, g.asked = true, 0
	select {
	case w.wake <- struct{}{}:
	default: // Run has not looked yet
	}
}

// add adds ranges of an object and reports whether they make it whole.
func (g *progress) add(root b3.Root, size int64, ranges []b3.Range) bool {
	if size == 0 {
		return true
	}
	if g.partial == nil {
		return false
	}
	had := g.partial[root]
	all := slices.Clone(had)
	for _, r := range ranges {
		if r.Start < r.End {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b b3.Range) int { return int(min(max(a.Start-b.Start, -1), 1)) })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && r.Start <= merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, r.End)
		} else {
			merged = append(merged, r)
		}
	}
	whole := len(merged) == 1 && merged[0] == b3.Range{Start: 0, End: size}
	g.ranges += len(merged) - len(had)
	g.partial[root] = merged
	if whole {
		g.ranges -= len(merged)
		delete(g.partial, root)
	}
	if g.ranges > maxRanges {
		g.partial = nil
	}
	return whole
}

// Run calls whole for each peer that has got all, until ctx ends. If it was not sent all of it in this time,
// has asks the peer whether it has all of the rest. Both are called by the goroutine of Run.
func (w *Watch) Run(ctx context.Context, has func(context.Context, peer.ID, []b3.Root) bool, whole func(Peer)) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-again.C:
		}
		var ask []Peer
		for _, p := range w.toLookAt(time.Now()) {
			if len(w.unsent(p.ID)) == 0 {
				w.tell(p, whole)
			} else {
				ask = append(ask, p)
			}
		}
		for _, p := range ask {
			if has(ctx, p.ID, w.unsent(p.ID)) {
				w.tell(p, whole)
			}
		}
		if at := w.nextAsk(time.Now()); !at.IsZero() {
			again.Reset(time.Until(at))
		}
	}
}

// toLookAt returns the peers that were sent something since the last call, and those that are to be asked again.
func (w *Watch) toLookAt(now time.Time) (all []Peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.peers.Keys() {
		g, ok := w.peers.Peek(p)
		if ok && !g.told && (g.news || !g.due.IsZero() && !g.due.After(now)) {
			g.news, g.due = false, time.Time{}
			all = append(all, Peer{p, g.addr})
		}
	}
	return all
}

// nextAsk sets when the peers are asked again that do not have all, and returns the earliest time; zero: never.
func (w *Watch) nextAsk(now time.Time) (at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.peers.Values() {
		if !g.told && !g.news && g.due.IsZero() && g.asked < maxAsks-1 {
			g.due = now.Add(firstAsk << g.asked)
			g.asked++
		}
		if !g.told && !g.due.IsZero() && (at.IsZero() || g.due.Before(at)) {
			at = g.due
		}
	}
	return at
}

// unsent returns the objects that were not sent whole to a peer.
func (w *Watch) unsent(p peer.ID) (rest []b3.Root) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g, ok := w.peers.Peek(p)
	if ok && g.left == 0 {
		return nil
	}
	for root, at := range w.index {
		if !ok || g.whole[at/64]>>(at%64)&1 == 0 {
			rest = append(rest, root)
		}
	}
	return rest
}

// tell calls whole, once for each peer.
func (w *Watch) tell(p Peer, whole func(Peer)) {
	w.mu.Lock()
	if g, ok := w.peers.Peek(p.ID); ok {
		g.told, g.news = true, false
	}
	w.mu.Unlock()
	whole(p)
}
