package dht

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// lookup walks the network towards a key. It is the seam of this package: the
// engine decides whom to ask and when, and knows nothing of records.
type lookup interface {
	// find asks peers ever closer to key until an answer is the last one
	// wanted (nil), the closest peers that answer have all been asked (nil),
	// or ctx ends (its error). Calls of ask that are no longer needed are
	// cancelled, and have returned before find does. hops is the distance of
	// the answer that ended the lookup; the own table is hop 1.
	find(ctx context.Context, key []byte, ask askFunc) (hops int, err error)

	// closest returns up to k live peers closest to key, nearest first. It is
	// patient: it is for publishing.
	closest(ctx context.Context, key []byte) ([]peer.ID, error)
}

// askFunc asks one peer. It returns the closer peers of the answer and whether
// the lookup may end. It is called from several goroutines.
type askFunc func(ctx context.Context, p peer.ID) (closer []peer.AddrInfo, last bool, err error)

// errNoPeers is returned when the routing table is empty.
var errNoPeers = status.Errorf(status.NoBootstrap, "dht: no peers are known yet: check that a seed is configured (dht.bootstrap) and reachable")

// tableLookup looks up with kad-dht's routing table: α probes at a time, none
// of them hedged, for find; kad-dht's own query for closest.
type tableLookup struct {
	self           peer.ID
	table          *kb.RoutingTable
	connected      func() []peer.ID    // peers that would do while the table is empty
	know           func(peer.AddrInfo) // makes addresses known for the dial
	drop           func(peer.ID)       // a peer that did not answer
	query          func(ctx context.Context, key string) ([]peer.ID, error)
	k, alpha, hops int
}

func (l *tableLookup) find(ctx context.Context, key []byte, ask askFunc) (int, error) {
	f := newFrontier(kb.ConvertKey(string(key)), l.k, l.hops)
	f.seen[l.self] = struct{}{}
	first := l.table.NearestPeers(f.target, l.k)
	if len(first) == 0 { // a connection becomes an entry of the table with some delay
		first = l.connected()
	}
	for _, p := range first {
		f.add(peer.AddrInfo{ID: p}, 1)
	}
	if len(f.list) == 0 {
		return 0, errNoPeers
	}

	type reply struct {
		c      *candidate
		closer []peer.AddrInfo
		last   bool
		err    error
	}
	replies := make(chan reply, l.alpha) // bound: alpha calls at one time
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer func() { cancel(); calls.Wait() }()

	hops := 0
	for inflight := 0; ; {
		for inflight < l.alpha {
			c := f.next()
			if c == nil {
				break
			}
			inflight++
			calls.Go(func() {
				l.know(c.AddrInfo)
				closer, last, err := ask(ctx, c.ID)
				replies <- reply{c, closer, last, err}
			})
		}
		if inflight == 0 {
			return hops, f.end()
		}
		select {
		case r := <-replies:
			inflight--
			l.feedback(ctx, r.c.ID, r.err)
			if r.err != nil {
				r.c.state = failed
				continue
			}
			r.c.state, hops = answered, r.c.hop
			for _, info := range r.closer {
				f.add(info, r.c.hop+1)
			}
			if r.last {
				return hops, nil
			}
		case <-ctx.Done():
			return hops, ctx.Err()
		}
	}
}

// feedback tells the routing table what came of asking p. A peer that is busy
// or refuses is alive; a call cancelled by us says nothing.
func (l *tableLookup) feedback(ctx context.Context, p peer.ID, err error) {
	switch o := status.Of(err); {
	case o == status.OK:
		l.table.UpdateLastSuccessfulOutboundQueryAt(p, time.Now())
	case ctx.Err() == nil && (o == status.Timeout || o == status.Upstream):
		l.drop(p)
	}
}

func (l *tableLookup) closest(ctx context.Context, key []byte) ([]peer.ID, error) {
	peers, err := l.query(ctx, string(key))
	if errors.Is(err, kb.ErrLookupFailure) || err == nil && len(peers) == 0 {
		return nil, errNoPeers
	}
	return peers, err
}

// frontier is what a lookup knows: the peers heard of, nearest to the target
// first.
type frontier struct {
	target  kb.ID
	k, hops int
	list    []*candidate
	seen    map[peer.ID]struct{}
}

type candidate struct {
	peer.AddrInfo
	distance kb.ID
	hop      int
	state    candidateState
}

type candidateState uint8

const (
	heard candidateState = iota
	asked
	answered
	failed
)

func newFrontier(target kb.ID, k, hops int) *frontier {
	return &frontier{target: target, k: k, hops: hops, seen: make(map[peer.ID]struct{})}
}

// add takes in a peer heard of, once.
func (f *frontier) add(info peer.AddrInfo, hop int) {
	if _, dup := f.seen[info.ID]; dup {
		return
	}
	f.seen[info.ID] = struct{}{}
	c := &candidate{AddrInfo: info, distance: kb.Xor(f.target, kb.ConvertPeerID(info.ID)), hop: hop}
	i, _ := slices.BinarySearchFunc(f.list, c, func(a, b *candidate) int { return bytes.Compare(a.distance, b.distance) })
	f.list = slices.Insert(f.list, i, c)
}

// next returns the nearest peer that is still to be asked among the k nearest
// that have not failed, and marks it as asked; nil when there is none.
func (f *frontier) next() *candidate {
	alive := 0
	for _, c := range f.list {
		if c.state == failed {
			continue
		}
		if alive++; alive > f.k {
			return nil
		}
		if c.state == heard && c.hop <= f.hops {
			c.state = asked
			return c
		}
	}
	return nil
}

// end is the result of a lookup with nobody left to ask: hop_exceeded when the
// hop budget cut it short.
func (f *frontier) end() error {
	for i, alive := 0, 0; i < len(f.list) && alive < f.k; i++ {
		switch c := f.list[i]; c.state {
		case heard:
			return status.Errorf(status.HopExceeded, "dht: the lookup needs more than %d hops", f.hops)
		case answered:
			alive++
		}
	}
	return nil
}
