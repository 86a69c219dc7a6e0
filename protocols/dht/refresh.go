package dht

import (
	"context"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/internal/jitter"
	"allium/protocols/kad"
)

const (
	noPeersPoll = 500 * time.Millisecond // interval of checks while no connected peer is known to serve
	tablePoll   = 2 * time.Second        // interval of checks of the table while waiting
	// first interval while the table is not filled; doubles up to Config.Refresh
	minRefresh      = 5 * time.Second
	refreshParallel = 3
	maxRandomBucket = 16 // kad-dht generates random keys for buckets up to 15
	idlePings       = 32 // most silent entries asked in one refresh
)

// refresh keeps the routing table filled until ctx ends. It starts when a peer is known
// and repeats every Config.Refresh ± 20 %, earlier while the table is not filled, with
// growing intervals.
//
// Each refresh looks up the node's own key, which also measures the size of the network,
// and a random key in each bucket that holds less than half of what it could. It then asks
// entries that were silent for Config.Refresh whether they still answer.
//
// kad-dht refreshes its own table in the same way. Its calls go through this package's RPC
// client, so both tables learn of every peer.
func (s *Service) refresh(ctx context.Context, kad *kaddht.IpfsDHT) {
	soon := minRefresh
	for s.awaitPeer(ctx, kad) {
		s.refreshOnce(ctx, kad)
		wait := s.cfg.Load().Refresh
		if have, need, _ := s.Fill(); have < need && soon < wait {
			wait, soon = soon, 2*soon
		} else {
			soon = minRefresh
		}
		s.waitRefresh(ctx, jitter.Spread(wait))
	}
}

// waitRefresh waits for d, or until the table is empty although peers are connected.
func (s *Service) waitRefresh(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !jitter.Sleep(ctx, min(tablePoll, time.Until(end))) || s.table.Size() == 0 && len(s.connected()) > 0 {
			return
		}
	}
}

// awaitPeer returns true once there is a peer to ask, and false when ctx ends. kad-dht
// examines a connected peer when it connects and then every two minutes; awaitPeer makes
// it do so more often. Without any connection it sleeps until there is one.
func (s *Service) awaitPeer(ctx context.Context, kad *kaddht.IpfsDHT) bool {
	net := s.deps.Host.Network()
	connected := make(chan struct{}, 1)
	events := &network.NotifyBundle{ConnectedF: func(network.Network, network.Conn) {
		select {
		case connected <- struct{}{}:
		default: // awaitPeer looks again anyway
		}
	}}
	net.Notify(events)
	defer net.StopNotify(events)
	for tries := 0; s.table.Size() == 0 && len(s.connected()) == 0; tries++ {
		if len(net.Peers()) == 0 {
			select {
			case <-connected:
			case <-ctx.Done():
				return false
			}
		}
		if tries%4 == 3 {
			_ = kad.Bootstrap(ctx) // only requests a refresh; always returns nil
		}
		if !jitter.Sleep(ctx, noPeersPoll) {
			return false
		}
	}
	return ctx.Err() == nil
}

func (s *Service) refreshOnce(ctx context.Context, rt *kaddht.IpfsDHT) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Load().PublishTimeout)
	defer cancel()
	_, near, err := s.closest(ctx, opRefresh, s.cfg.Load().findConfig(), []byte(s.self))
	if err == nil {
		s.updateNetworkSize(near.Closest)
	}
	_ = rt.RefreshRoutingTable() // runs in the background; the returned channel is buffered

	var lookups errgroup.Group
	lookups.SetLimit(refreshParallel)
	for _, bucket := range s.underfilled() {
		key, err := rt.RoutingTable().GenRandPeerID(uint(bucket))
		if err != nil {
			continue // cannot happen: see maxRandomBucket
		}
		lookups.Go(func() error {
			_, _, _ = s.closest(ctx, opRefresh, s.cfg.Load().findConfig(), []byte(key)) // the table learns the result
			return nil
		})
	}
	for _, p := range s.table.Idle(time.Now().Add(-s.cfg.Load().Refresh), idlePings) {
		lookups.Go(func() error {
			_, _ = s.findNode(ctx, p, []byte(s.self)) // the RPC client reports to the table
			return nil
		})
	}
	_ = lookups.Wait() // no call returns an error
}

// underfilled lists the buckets that hold less than half of what they could.
func (s *Service) underfilled() (buckets []int) {
	want := kad.BucketSizes(int(s.networkSize.Load()), s.cfg.Load().K, maxRandomBucket)
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

// updateNetworkSize estimates the size of the network from the peers closest to this node.
// It averages the previous and the new estimate, so that one odd lookup does not change
// readiness.
func (s *Service) updateNetworkSize(closest []kad.Peer[peer.ID]) {
	n := int64(kad.NetworkSize(kad.Hash([]byte(s.self)), closest, s.cfg.Load().K))
	if old := s.networkSize.Load(); old > 0 && len(closest) >= s.cfg.Load().K {
		n = (old + n) / 2
	}
	s.networkSize.Store(n)
	s.m.network.Set(float64(n))
}

// fillPercent is the percentage of the expected entries at which the table counts as
// filled (SPEC §5).
const fillPercent = 60

// Fill returns how many of the expected peers the routing table holds, and how many it
// needs to count as filled: 60 % of what its buckets can hold in a network of the estimated
// size. Until the first lookup of the node's own key has estimated the size, known is false
// and need is have + 1.
func (s *Service) Fill() (have, need int, known bool) {
	size := int(s.networkSize.Load())
	if size == 0 {
		n := s.table.Size()
		return n, n + 1, false
	}
	have, expected := s.table.Fill(size)
	return have, (expected*fillPercent + 99) / 100, true
}

// rememberPeers stores the addresses of peers that a seed named, for lookups that follow.
func (s *Service) rememberPeers(_ peer.ID, peers []peer.AddrInfo) {
	for _, p := range peers {
		s.rememberAddrs(p)
	}
}

// tableAddrs returns the routing table with addresses, to be stored for the next start.
func (s *Service) tableAddrs() (infos []peer.AddrInfo) {
	for _, e := range s.table.Entries() {
		if info := s.deps.Host.Peerstore().PeerInfo(e.ID); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	return infos
}
