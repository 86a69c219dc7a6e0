package dht

import (
	"context"
	"sync/atomic"
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

// refresher keeps the routing table filled, and estimates the size of the network by what its lookups find.
type refresher struct {
	near *neighbours
	self peer.ID
	m    *metrics
	walk *walker

	networkSize atomic.Int64 // estimated number of servers in the network; 0: unknown
}

// run keeps the routing table filled until ctx ends. It starts when a peer is known
// and repeats every Config.Refresh ± 20 %, earlier while the table is not filled, with
// growing intervals.
//
// Each refresh looks up the node's own key, which also measures the size of the network,
// and a random key in each bucket that holds less than half of what it could. It then asks
// entries that were silent for Config.Refresh whether they still answer.
//
// kad-dht refreshes its own table in the same way. Its calls go through this package's RPC
// client, so both tables learn of every peer.
func (f *refresher) run(ctx context.Context, kad *kaddht.IpfsDHT) {
	soon := minRefresh
	for f.awaitPeer(ctx, kad) {
		f.once(ctx, kad)
		pause := f.near.cfg.Load().Refresh
		if have, need, _ := f.fill(); have < need && soon < pause {
			pause, soon = soon, 2*soon
		} else {
			soon = minRefresh
		}
		f.wait(ctx, jitter.Spread(pause))
	}
}

// wait waits for d, or until the table is empty although peers are connected.
func (f *refresher) wait(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !jitter.Sleep(ctx, min(tablePoll, time.Until(end))) ||
			f.near.table.Size() == 0 && len(f.near.connected()) > 0 {
			return
		}
	}
}

// awaitPeer returns true once there is a peer to ask, and false when ctx ends. kad-dht
// examines a connected peer when it connects and then every two minutes; awaitPeer makes
// it do so more often. Without any connection it sleeps until there is one.
func (f *refresher) awaitPeer(ctx context.Context, kad *kaddht.IpfsDHT) bool {
	net := f.near.host.Network()
	connected := make(chan struct{}, 1)
	events := &network.NotifyBundle{ConnectedF: func(network.Network, network.Conn) {
		select {
		case connected <- struct{}{}:
		default: // awaitPeer looks again anyway
		}
	}}
	net.Notify(events)
	defer net.StopNotify(events)
	for tries := 0; f.near.table.Size() == 0 && len(f.near.connected()) == 0; tries++ {
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

func (f *refresher) once(ctx context.Context, rt *kaddht.IpfsDHT) {
	ctx, cancel := context.WithTimeout(ctx, f.near.cfg.Load().PublishTimeout)
	defer cancel()
	_, near, err := f.lookup(ctx, []byte(f.self))
	if err == nil {
		f.updateNetworkSize(near.Closest)
	}
	_ = rt.RefreshRoutingTable() // runs in the background; the returned channel is buffered

	var lookups errgroup.Group
	lookups.SetLimit(refreshParallel)
	for _, bucket := range f.underfilled() {
		key, err := rt.RoutingTable().GenRandPeerID(uint(bucket))
		if err != nil {
			continue // cannot happen: see maxRandomBucket
		}
		lookups.Go(func() error {
			_, _, _ = f.lookup(ctx, []byte(key)) // the table learns the result
			return nil
		})
	}
	for _, p := range f.near.table.Idle(time.Now().Add(-f.near.cfg.Load().Refresh), idlePings) {
		lookups.Go(func() error {
			_, _ = f.walk.findNode(ctx, p, []byte(f.self)) // the RPC client reports to the table
			return nil
		})
	}
	_ = lookups.Wait() // no call returns an error
}

// lookup looks up the peers closest to key.
func (f *refresher) lookup(ctx context.Context, key []byte) ([]peer.ID, kad.Result[peer.ID], error) {
	return f.walk.closest(ctx, opRefresh, f.near.cfg.Load().findConfig(), key)
}

// underfilled lists the buckets that hold less than half of what they could.
func (f *refresher) underfilled() (buckets []int) {
	want := kad.BucketSizes(int(f.networkSize.Load()), f.near.cfg.Load().K, maxRandomBucket)
	held := make([]int, len(want))
	for _, e := range f.near.table.Entries() {
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
func (f *refresher) updateNetworkSize(closest []kad.Peer[peer.ID]) {
	n := int64(kad.NetworkSize(kad.Hash([]byte(f.self)), closest, f.near.cfg.Load().K))
	if old := f.networkSize.Load(); old > 0 && len(closest) >= f.near.cfg.Load().K {
		n = (old + n) / 2
	}
	f.networkSize.Store(n)
	f.m.network.Set(float64(n))
}

// fillPercent is the percentage of the expected entries at which the table counts as
// filled (SPEC §5).
const fillPercent = 60

// fill returns what Service.Fill does.
func (f *refresher) fill() (have, need int, known bool) {
	size := int(f.networkSize.Load())
	if size == 0 {
		n := f.near.table.Size()
		return n, n + 1, false
	}
	have, expected := f.near.table.Fill(size)
	return have, (expected*fillPercent + 99) / 100, true
}
