package object

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// forRepair are the options of a put that nobody waits for.
var forRepair = PutOptions{Capability: []byte(token), Repair: true}

// TestPutForRepair: the receiver is told the bytes of a put that nobody waits for, as many as the sender sends, and of
// no other put.
func TestPutForRepair(t *testing.T) {
	p, mine, r := newPutPair(t, DefaultConfig())
	taken, sent := 0, 0
	r.throttle = func(_ context.Context, n int) error {
		taken += n
		return nil
	}
	for i, o := range []PutOptions{forRepair, withToken} {
		taken, sent = 0, 0
		o.Wait = func(_ context.Context, n int) error {
			sent += n
			return nil
		}
		root := mine.put(testData(5*b3.GroupSize+1, uint64(i)))
		if _, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), o); err != nil {
			t.Fatal(err)
		}
		objs := SmallObjects{Open: func(ctx context.Context, n int) (b3.Object, error) {
			return mine.OpenObject(ctx, b3.Sum(testData(1000+n, uint64(i))))
		}}
		for n := range 100 {
			objs.Objs, objs.Sizes = append(objs.Objs, mine.put(testData(1000+n, uint64(i)))),
				append(objs.Sizes, int64(1000+n))
		}
		if _, err := p.client.PutMany(t.Context(), serverID, objs, o); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: sent}[o.Repair]; taken != want || sent < 5*b3.GroupSize+100_000 {
			t.Errorf("repair %t: %d bytes are taken, %d were sent", o.Repair, taken, sent)
		}
		if last := r.offers[len(r.offers)-1]; !last.Many {
			t.Errorf("the last put was %+v", last)
		}
	}
	// What the receiver says ends the put.
	full := status.Errorf(status.Busy, "test receiver: too many repairs")
	r.throttle = func(context.Context, int) error { return full }
	root := mine.put(testData(9*b3.GroupSize, 9))
	if _, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), forRepair); status.Of(err) != status.Busy {
		t.Error(err)
	}
}

// TestPutForRepairPauses: either side of a put that nobody waits for may pause for longer than others, and no side for
// ever.
func TestPutForRepairPauses(t *testing.T) {
	const pause, tooLong = 20 * time.Second, 70 * time.Second
	for name, c := range map[string]struct {
		repair           bool
		sender, receiver time.Duration // pause at each frame
		want             status.Outcome
	}{
		"slow sender":       {true, pause, 0, status.OK},
		"slow receiver":     {true, 0, pause, status.OK},
		"both":              {true, pause, pause, status.OK},
		"awaited":           {false, pause, 0, status.Upstream},
		"stalled sender":    {true, tooLong, 0, status.Upstream},
		"stalled receiver":  {true, 0, tooLong, status.Timeout},
		"a sender that can": {false, almost, 0, status.OK},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, mine, r := newPutPair(t, DefaultConfig())
				r.throttle = func(ctx context.Context, _ int) error { return limits.Sleep(ctx, c.receiver) }
				data := testData(20*b3.GroupSize, 1)
				root := mine.put(data)
				o := PutOptions{Capability: []byte(token), Repair: c.repair,
					Wait: func(ctx context.Context, _ int) error {
						return limits.Sleep(ctx, c.sender)
					}}
				_, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), o)
				if status.Of(err) != c.want {
					t.Fatalf("%v, want %s", err, c.want)
				}
				testkit.Eventually(t, "the end of the put", func() bool { return r.closes() == 1 })
				if part := r.part(root); part.open || part.stored != (err == nil) || err == nil &&
					!bytes.Equal(part.data, data) {
					t.Errorf("open %t, stored %t", part.open, part.stored)
				}
				// The stream, if it is left, is as patient as before.
				r.throttle = nil
				if _, err := p.client.Put(t.Context(), serverID, mine.mustOpen(t, root), withToken); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRepairEachOther: two nodes repair each other at once, and each takes what it sends and what it receives from one
// rate. They do not wait for each other, and each direction gets half.
func TestRepairEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, size, objects = 256 << 10, 1 << 20, 3 << 20, 2
		net := testkit.NewNetwork(testkit.Options{})
		type node struct {
			id       peer.ID
			client   *Client
			mine     *memStore
			receiver *memReceiver
			wait     func(ctx context.Context, n int) error
			taken    int64 // bytes of its rate
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		nodes := []*node{{id: "one"}, {id: "two"}}
		for _, n := range nodes {
			bucket := (*limits.Registry)(nil).NewRate(limits.Spec{Name: "test"}, rate, burst)
			host := net.Host(n.id)
			n.mine = newMemStore()
			n.receiver = newMemReceiver(newMemStore())
			n.wait = func(ctx context.Context, k int) error {
				n.receiver.mu.Lock()
				n.taken += int64(k)
				n.receiver.mu.Unlock()
				return bucket.Wait(ctx, k, time.Hour)
			}
			n.receiver.throttle = n.wait
			server, err := NewServer(DefaultConfig(),
				ServerDeps{Host: host, Store: n.receiver.store, Receiver: n.receiver})
			if err != nil {
				t.Fatal(err)
			}
			if n.client, err = NewClient(DefaultConfig(), ClientDeps{Host: host}); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- server.Run(ctx, func() {}) }()
		}
		synctest.Wait()
		begun := time.Now()
		results := make(chan error)
		for i, n := range nodes {
			for k := range objects {
				root := n.mine.put(testData(size, uint64(10*i+k)))
				go func() {
					o := PutOptions{Capability: []byte(token), Repair: true, Wait: n.wait}
					_, err := n.client.Put(t.Context(), nodes[1-i].id, n.mine.mustOpen(t, root), o)
					results <- err
				}()
			}
		}
		for range objects * len(nodes) {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		took := time.Since(begun)
		for _, n := range nodes {
			// What a node sends and what it receives is counted once each.
			least := time.Duration(float64(n.taken-burst) / rate * float64(time.Second))
			if n.taken < 2*objects*size || took < least || took > least+10*time.Second {
				t.Errorf("%d bytes of %s took %s, at the rate it is %s", n.taken, n.id, took, least)
			}
			_ = n.client.Close()
		}
		stop()
		for range nodes {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		net.Close()
	})
}
