package limits_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// put fails the test unless the item is taken, and returns the item that was shed.
func put(t *testing.T, q *limits.FairQueue[string, int], k string, v int) int {
	t.Helper()
	shed, err := q.TryPut(k, v)
	if err != nil {
		t.Fatalf("%s %d: %v", k, v, err)
	}
	if shed == nil {
		return 0
	}
	wantLimit(t, shed.Err, status.Busy, "q")
	return shed.Item
}

func wantGet(t *testing.T, q *limits.FairQueue[string, int], want ...int) {
	t.Helper()
	for _, w := range want {
		if v, err := q.Get(t.Context()); err != nil || v != w {
			t.Errorf("got %d, %v; want %d", v, err, w)
		}
	}
}

// TestFairQueueMakeRoom: the newest item of the key with most is shed; a key whose
// queue is the longest already is refused.
func TestFairQueueMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		q := limits.NewFairQueue[string, int](r, spec("q"), 4, 9)
		for i := range 4 {
			put(t, q, "a", i+1)
		}
		_, err := q.TryPut("a", 5)
		if l := wantLimit(t, err, status.Busy, "q"); l.Current != 4 || l.Cap != 4 {
			t.Errorf("%+v", l)
		}
		if got := put(t, q, "b", 10); got != 4 {
			t.Errorf("%d made room, want the newest of a, 4", got)
		}
		wantGet(t, q, 1, 10, 2, 3)
		if i := r.Snapshot()[0]; i.Current != 0 || i.Peak != 4 || i.Rejected != 2 || i.Kind != limits.KindQueue {
			t.Errorf("%+v", i)
		}
	})
}

// TestFairQueueAtOnce: one key does not hold all workers, and the next of its
// items runs when one of them is done.
func TestFairQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limits.NewFairQueue[string, int](nil, spec("q"), 10, 4)
		for i := range 3 {
			put(t, q, "a", i+1)
		}
		wantGet(t, q, 1, 2)
		put(t, q, "b", 10)
		wantGet(t, q, 10)
		var wg sync.WaitGroup
		got := 0
		wg.Go(func() { got, _ = q.Get(t.Context()) })
		synctest.Wait()
		if got != 0 || q.Len() != 1 {
			t.Errorf("got %d while two of a ran", got)
		}
		q.Done("b")
		synctest.Wait()
		q.Done("a")
		wg.Wait()
		if got != 3 {
			t.Errorf("got %d", got)
		}
	})
}

// TestFairQueueKeepWorkersFree: keys that keep all the workers they get leave half of
// the free ones to the next, down to the last, which anybody gets who has none.
func TestFairQueueKeepWorkersFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 64
		q := limits.NewFairQueue[string, int](nil, spec("q"), 1000, workers)
		running := map[int]int{} // by key
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var pool sync.WaitGroup
		for range workers {
			pool.Go(func() {
				if k, err := q.Get(ctx); err == nil { // and never Done
					mu.Lock()
					defer mu.Unlock()
					running[k]++
				}
			})
		}
		for k, want := range []int{32, 16, 8, 4, 2, 1, 1, 0} {
			for range workers {
				put(t, q, strconv.Itoa(k), k)
			}
			synctest.Wait()
			if running[k] != want {
				t.Errorf("key %d runs %d of its items, want %d", k, running[k], want)
			}
		}
		cancel()
		pool.Wait()
	})
}

// TestFairQueueGetEnds: a Get that its context ends takes nothing with it.
func TestFairQueueGetEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limits.NewFairQueue[string, int](nil, spec("q"), 10, 2)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := q.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		put(t, q, "a", 1)
		wantGet(t, q, 1)
	})
}

// TestFairQueueLoseNothing: with producers and consumers that come and go, every
// item is handed out, shed or refused, once.
func TestFairQueueLoseNothing(t *testing.T) {
	const producers, each = 8, 500
	q := limits.NewFairQueue[int, int](nil, spec("q"), 16, 4)
	var mu sync.Mutex
	seen := map[int]int{}
	see := func(v int) {
		mu.Lock()
		defer mu.Unlock()
		seen[v]++
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var consumers, putting sync.WaitGroup
	for range 4 {
		consumers.Go(func() {
			for ctx.Err() == nil {
				short, stop := context.WithTimeout(ctx, 50*time.Microsecond)
				if v, err := q.Get(short); err == nil {
					see(v)
					q.Done(v / each)
				}
				stop()
			}
		})
	}
	for p := range producers {
		putting.Go(func() {
			for i := range each {
				shed, err := q.TryPut(p, p*each+i)
				if err != nil {
					see(p*each + i)
				}
				if shed != nil {
					see(shed.Item)
				}
			}
		})
	}
	putting.Wait()
	cancel()
	consumers.Wait()
	for q.Len() > 0 { // nothing runs any more: every key may be served
		v, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		see(v)
		q.Done(v / each)
	}
	for v := range producers * each {
		if seen[v] != 1 {
			t.Fatalf("item %d was seen %d times", v, seen[v])
		}
	}
}

func BenchmarkFairQueue(b *testing.B) {
	q := limits.NewFairQueue[int, int](nil, spec("q"), 512, 64)
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		k = (k + 1) % 64
		_, _ = q.TryPut(k, k)
		v, _ := q.Get(b.Context())
		q.Done(v)
	}
}
