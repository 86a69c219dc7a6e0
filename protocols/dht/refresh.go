package dht

import (
	"context"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/internal/jitter"
	"allium/protocols/kad"
)

const (
	refreshPoll     = 500 * time.Millisecond // while nobody is known
	refreshLook     = 2 * time.Second        // between two looks at the table
	refreshSoon     = 5 * time.Second        // while the table is not filled; doubles up to Config.Refresh
	refreshParallel = 3
	maxRandomBucket = 16 // kad-dht knows random keys for buckets up to 15
	idlePings       = 32 // entries asked whether they are still there, in one refresh
)

// refresh keeps the routing table filled: as soon as a peer is known, and every
// Config.Refresh ± 20 % from then on, it looks up its own neighbourhood, which
// also tells the size of the network, and a random key in each bucket that
// holds less than half of what it could; then it asks those that have been
// silent for so long whether they are still there. Until the table is filled it
// comes back sooner, and ever later.
//
// kad-dht keeps its own table, which it answers others from, in the same way;
// its calls are made by our caller, so that both tables hear of every peer.
func (s *Service) refresh(ctx context.Context, kad *kaddht.IpfsDHT) {
	soon := refreshSoon
	for s.awaitAnyone(ctx, kad) {
		s.refreshOnce(ctx, kad)
		wait := s.cfg.Refresh
		if have, need, _ := s.Fill(); have < need && soon < wait {
			wait, soon = soon, 2*soon
		} else {
			soon = refreshSoon
		}
		s.rest(ctx, jitter.Spread(wait))
	}
}

// rest waits for d, or until the table is empty although there are connections.
func (s *Service) rest(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !jitter.Sleep(ctx, min(refreshLook, time.Until(end))) || s.table.Size() == 0 && len(s.connected()) > 0 {
			return
		}
	}
}

// awaitAnyone returns when there is somebody to ask; false when ctx ends.
// kad-dht looks at the peers it is connected to when they connect, and then
// every two minutes: it is reminded.
func (s *Service) awaitAnyone(ctx context.Context, kad *kaddht.IpfsDHT) bool {
	for tries := 0; s.table.Size() == 0 && len(s.connected()) == 0; tries++ {
		if tries%4 == 3 && len(s.deps.Host.Network().Peers()) > 0 {
			_ = kad.Bootstrap(ctx) // only asks for it, and always returns nil
		}
		if !jitter.Sleep(ctx, refreshPoll) {
			return false
		}
	}
	return ctx.Err() == nil
}

func (s *Service) refreshOnce(ctx context.Context, rt *kaddht.IpfsDHT) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.PublishTimeout)
	defer cancel()
	_, near, err := s.closest(ctx, opRefresh, s.cfg.find(), []byte(s.self))
	if err == nil {
		s.measure(near.Closest)
	}
	_ = rt.RefreshRoutingTable() // in the background; its result is a channel with room

	var lookups errgroup.Group
	lookups.SetLimit(refreshParallel)
	for _, bucket := range s.short() {
		key, err := rt.RoutingTable().GenRandPeerID(uint(bucket))
		if err != nil {
			continue // cannot be: see maxRandomBucket
		}
		lookups.Go(func() error {
			_, _, _ = s.closest(ctx, opRefresh, s.cfg.find(), []byte(key)) // what it finds is in the table
			return nil
		})
	}
	for _, p := range s.table.Idle(time.Now().Add(-s.cfg.Refresh), idlePings) {
		lookups.Go(func() error {
			_, _ = s.findNode(ctx, p, []byte(s.self)) // the caller tells the table
			return nil
		})
	}
	_ = lookups.Wait() // no call returns an error
}

// short lists the buckets that hold less than half of what they could.
func (s *Service) short() (buckets []int) {
	want := kad.BucketSizes(int(s.size.Load()), s.cfg.K, maxRandomBucket)
	held := make([]int, len(want))
	for _, e := range s.table.Entries() {
		held[min(e.Bucket, len(want)-1)]++
	}
	for i := range want {
		if 2*held[i] < want[i] {
			buckets = append(buckets, i)
		}
	}
	return buckets
}

// measure estimates the size of the network from the peers closest to us: the
// mean of what it was and what it seems now, so that one odd lookup does not
// turn readiness over.
func (s *Service) measure(closest []kad.Peer[peer.ID]) {
	n := int64(kad.NetworkSize(kad.Hash([]byte(s.self)), closest, s.cfg.K))
	if old := s.size.Load(); old > 0 && len(closest) >= s.cfg.K {
		n = (old + n) / 2
	}
	s.size.Store(n)
	s.m.network.Set(float64(n))
}

// fillPercent is the share of what the buckets can hold from which on the table
// counts as filled (SPEC §5).
const fillPercent = 60

// Fill is how many peers the routing table holds of those that count, and how
// many it needs: 60 % of what the buckets can hold in a network of the
// estimated size. Before the first lookup of its own neighbourhood has told the
// size (known is false then) it needs one peer more than it has.
func (s *Service) Fill() (have, need int, known bool) {
	size := int(s.size.Load())
	if size == 0 {
		n := s.table.Size()
		return n, n + 1, false
	}
	have, room := s.table.Fill(size)
	return have, (room*fillPercent + 99) / 100, true
}

// learned takes the peers that a seed gave us: their addresses, for the lookups
// that follow.
func (s *Service) learned(_ peer.ID, peers []peer.AddrInfo) {
	for _, p := range peers {
		s.know(p)
	}
}

// tableAddrs is the routing table with addresses, for the next start.
func (s *Service) tableAddrs() (infos []peer.AddrInfo) {
	for _, e := range s.table.Entries() {
		if info := s.deps.Host.Peerstore().PeerInfo(e.ID); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	return infos
}
