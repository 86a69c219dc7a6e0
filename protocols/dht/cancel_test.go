package dht

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"allium/internal/testkit"
	"allium/protocols/status"
)

// open counts the streams of the DHT's protocols on all connections of n.
func (n *node) open() (open int) {
	for _, c := range n.host.Network().Conns() {
		for _, s := range c.GetStreams() {
			if p := s.Protocol(); p == KadID || p == ProviderID {
				open++
			}
		}
	}
	return open
}

// TestCancelledOnLoopback: a thousand lookups that their callers cut off at some
// time, among peers that answer and peers that never do, leave no goroutine and
// no stream at either end.
func TestCancelledOnLoopback(t *testing.T) {
	nodes := startNetwork(t, 6)
	for _, x := range nodes {
		testkit.Eventually(t, "a full table", func() bool { return x.TableSize() == len(nodes)-1 })
	}
	const longest = 40 * time.Millisecond // that a caller waits
	for _, x := range nodes[4:] {
		for _, id := range []protocol.ID{KadID, ProviderID} {
			x.host.SetStreamHandler(id, func(s network.Stream) {
				_, _ = io.Copy(io.Discard, s)
				time.Sleep(longest / 4) // a reset after the end of the request shows in no read
				_ = s.Reset()
			})
		}
	}
	if _, err := nodes[1].Provide(t.Context(), root("an object")); err != nil {
		t.Fatal(err)
	}
	streams := func() (open int) {
		for _, x := range nodes {
			open += x.open()
		}
		return open
	}
	testkit.Eventually(t, "no stream before", func() bool { return streams() == 0 })
	before := goleak.IgnoreCurrent()

	lookups := 1000
	if testing.Short() {
		lookups = 200
	}
	var cut, whole int
	ends := make(chan error, lookups) // bound: all
	var group errgroup.Group
	group.SetLimit(4)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range lookups {
		u := rng.Float64() // most are cut off early
		x, wait := nodes[rng.IntN(4)], time.Duration(u*u*u*float64(longest))
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			var err error
			switch r := root(fmt.Sprint("object ", i)); i % 4 {
			case 0:
				_, err = x.walk.GetClosestPeers(ctx, string(r.Multihash()))
			case 1:
				_, err = x.Provide(ctx, r)
			case 2:
				_, err = collect(x.FindProviders(ctx, r, FindOptions{}))
			case 3: // the caller has enough
				for range x.FindProviders(ctx, root("an object"), FindOptions{}) {
					break
				}
			}
			ends <- err
			return nil
		})
	}
	_ = group.Wait()
	close(ends)
	for err := range ends {
		switch o := status.Of(err); o {
		case status.OK:
			whole++
		case status.Timeout, status.Canceled:
			cut++
		default:
			t.Errorf("a lookup ended with %v", err)
		}
	}
	t.Logf("%d lookups were cut off, %d were not", cut, whole)
	if cut < lookups/20 || whole < lookups/20 {
		t.Errorf("%d of %d lookups were cut off: nothing was put to the test", cut, lookups)
	}
	testkit.Eventually(t, "no stream left", func() bool { return streams() == 0 })
	var left error
	testkit.Eventually(t, "no goroutine left", func() bool {
		left = goleak.Find(before)
		return left == nil
	})
	for _, x := range nodes[:4] {
		for i := range x.cfg.Load().Lookups {
			if _, err := x.lookups.gate.TryAcquire(); err != nil {
				t.Fatalf("only %d of %d places for lookups are free: %v", i, x.cfg.Load().Lookups, err)
			}
		}
	}
}
