package limits

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/status"
)

// flood lets streams of one key take bytes in pieces until ctx ends, and returns how many it got.
func flood(ctx context.Context, wg *sync.WaitGroup, b *Bandwidth, key string, streams, piece int) func() int {
	var mu sync.Mutex
	got := 0
	for range streams {
		wg.Go(func() {
			for b.Wait(ctx, key, false, piece, time.Hour) == nil && ctx.Err() == nil {
				mu.Lock()
				got += piece
				mu.Unlock()
			}
		})
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

// within fails unless got is within 5 % of want.
func within(t *testing.T, what string, got int, want float64) {
	t.Helper()
	if float64(got) < 0.95*want || float64(got) > 1.05*want {
		t.Errorf("%s got %d bytes, want %.0f", what, got, want)
	}
}

// TestBandwidth holds each rate within 5 % over 10 s, from peers and clients that ask for different
// things: each key gets the same.
func TestBandwidth(t *testing.T) {
	for _, rate := range []int{256 << 10, 1 << 20, 100 << 20} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRegistry(nil)
				b := NewBandwidth(r, Spec{Name: "rate"})
				b.Set(int64(rate), false)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				greedy := flood(ctx, &wg, b, "greedy", 8, 64<<10)
				one := flood(ctx, &wg, b, "one", 1, 64<<10)
				small := flood(ctx, &wg, b, "small", 4, 8<<10)
				synctest.Wait()
				if i := r.Snapshot()[0]; i.Capacity != int64(rate) || i.Current == 0 {
					t.Errorf("the list has %+v", i)
				}
				wg.Wait()
				within(t, "all", greedy()+one()+small(), 10*float64(rate))
				if g, o := greedy(), one(); g > o+o/8+128<<10 {
					t.Errorf("8 streams of one key got %d bytes, 1 of another %d", g, o)
				}
			})
		})
	}
}

// TestBandwidthChanges changes the rate while callers wait, and takes the bound away.
func TestBandwidthChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBandwidth(nil, Spec{Name: "rate"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.Set(1<<20, false)
		var wg sync.WaitGroup
		got := flood(ctx, &wg, b, "a", 3, 64<<10)
		time.Sleep(10 * time.Second)
		first := got()
		within(t, "the first rate", first, 10<<20)
		b.Set(4<<20, false)
		time.Sleep(10 * time.Second)
		within(t, "the second rate", got()-first, 40<<20)
		b.Set(64<<10, false)
		cancel()
		wg.Wait()

		done := make(chan error)
		go func() { done <- b.Wait(t.Context(), "b", false, 64<<20, time.Hour) }()
		synctest.Wait()
		b.Set(0, false)
		if err := <-done; err != nil {
			t.Errorf("without a bound: %v", err)
		}
		if n := b.m.inUse(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// TestBandwidthEnds lets waits end by their time, by their context, and not at all because they are
// near.
func TestBandwidthEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBandwidth(nil, Spec{Name: "rate"})
		b.Set(64<<10, false)
		if err := b.Wait(t.Context(), "a", true, 1<<30, 0); err != nil {
			t.Errorf("near: %v", err)
		}
		begun := time.Now()
		if err := b.Wait(t.Context(), "a", false, 1<<20, 4*time.Second); status.Of(err) != status.RateLimit {
			t.Errorf("a wait of 16 s: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Wait(ctx, "a", false, 1<<20, time.Hour); status.Of(err) != status.Timeout {
			t.Errorf("an ended context: %v", err)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("both took %s; the first one should be refused at once", took)
		}
		b.Set(64<<10, true)
		if err := b.Wait(t.Context(), "a", true, 1<<30, 0); status.Of(err) != status.RateLimit {
			t.Errorf("near, with a bound for the local network: %v", err)
		}
		if n := b.m.inUse(); n != 0 || b.timer != nil {
			t.Errorf("%d wait after all have left", n)
		}
	})
}

// TestBandwidthEnter admits as many transfers as get 128 KiB/s each, and more when the rate grows.
func TestBandwidthEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBandwidth(nil, Spec{Name: "rate"})
		b.Set(300<<10, false)
		var leaves []func()
		for range 2 {
			leave, err := b.Enter(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Enter(ctx, false); status.Of(err) != status.Timeout {
			t.Errorf("a third one: %v", err)
		}
		entered := make(chan func(), 2)
		for range 2 {
			go func() {
				leave, err := b.Enter(t.Context(), false)
				if err != nil {
					t.Error(err)
				}
				entered <- leave
			}()
		}
		synctest.Wait()
		if len(entered) > 0 {
			t.Error("a third one is inside")
		}
		leaves[0]()
		leaves[0]() // does nothing
		leaves = append(leaves, <-entered)
		synctest.Wait()
		if len(entered) > 0 {
			t.Error("one left and two entered")
		}
		b.Set(0, false)
		leaves = append(leaves, <-entered)
		for _, leave := range leaves {
			leave()
		}
		if n := b.callers.Used(); n != 0 {
			t.Errorf("%d are inside", n)
		}
	})
}
