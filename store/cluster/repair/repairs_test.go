package repair

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/gc"
)

// rotten is a store with damaged objects, and a network that has them.
type rotten struct {
	mu       sync.Mutex
	marked   []b3.Root
	unwanted map[b3.Root]bool
	size     int           // of each object
	fail     error         // of each fetch
	panics   bool          // of each fetch
	hold     chan struct{} // if set, fetches wait for its end
	fetched  map[b3.Root]int
}

func (r *rotten) ops() ops {
	return ops{
		promiseOps: promiseOps{
			follow:   func(context.Context, bool, func(gc.Lost) error) error { return nil },
			restored: func(context.Context, b3.Root, bool) error { return nil },
		},
		wanted: func(_ context.Context, root b3.Root) (bool, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !slices.Contains(r.marked, root) {
				return false, status.Errorf(status.NotFound, "%s is gone", root)
			}
			return !r.unwanted[root], nil
		},
		fetch: func(ctx context.Context, root b3.Root, _ int64, took func(n int) error) error {
			r.mu.Lock()
			hold, fail, panics := r.hold, r.fail, r.panics
			if r.fetched == nil {
				r.fetched = map[b3.Root]int{}
			}
			r.fetched[root]++
			r.mu.Unlock()
			if panics {
				panic("of a fetch")
			}
			if hold != nil {
				select {
				case <-hold:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			for left := r.size; left > 0 && fail == nil; left -= b3.GroupSize {
				if err := took(min(left, b3.GroupSize)); err != nil {
					return err
				}
			}
			if fail == nil {
				r.mu.Lock()
				r.marked = slices.DeleteFunc(r.marked, func(o b3.Root) bool { return o == root })
				r.mu.Unlock()
			}
			return fail
		},
		corrupt: func(context.Context) iter.Seq2[b3.Root, error] {
			r.mu.Lock()
			marked := slices.Clone(r.marked)
			r.mu.Unlock()
			return func(yield func(b3.Root, error) bool) {
				for _, root := range marked {
					if !yield(root, nil) {
						return
					}
				}
			}
		},
	}
}

// tries is how often an object was fetched.
func (r *rotten) tries(root b3.Root) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fetched[root]
}

func (r *rotten) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.marked)
}

func numbered(n int) []b3.Root {
	roots := make([]b3.Root, n)
	for i := range roots {
		binary.BigEndian.PutUint32(roots[i][:], uint32(i+1))
	}
	return roots
}

// mending are repairs at that rate, which run until the test ends when ops are
// given.
func mending(t *testing.T, rate limits.Bytes, world *rotten) *Repairs {
	t.Helper()
	reg := prometheus.NewRegistry()
	r, err := New(rate, true, env.Env{Metrics: reg, Limits: limits.NewRegistry(reg)})
	if err != nil {
		t.Fatal(err)
	}
	if world != nil {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.run(ctx, world.ops()) })
		t.Cleanup(func() { cancel(); wg.Wait() })
	}
	return r
}

func skips(r *Repairs, why string) int {
	return int(testutil.ToFloat64(r.m.skipped.WithLabelValues(damage, why)))
}

// heldBy is how many objects are to be repaired, and of how many failures are
// remembered.
func heldBy(r *Repairs) (pending, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending), r.failed.Len()
}

func outcomes(r *Repairs, o status.Outcome) int {
	return int(testutil.ToFloat64(r.m.objects.WithLabelValues(damage, o.String())))
}

// TestRepairQueueIsFull: what there is no room for is counted, not waited for,
// and found again by the planner.
func TestRepairQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = queueLen + workers + 30
		world := &rotten{size: 1000, hold: make(chan struct{})}
		r := mending(t, 50<<20, world)
		synctest.Wait() // it has planned, and found nothing
		world.mu.Lock()
		world.marked = numbered(all)
		world.mu.Unlock()
		for i, root := range numbered(all) {
			r.Damaged(root)
			r.Damaged(root) // is queued, if there is room, and then no second one
			if i < workers {
				synctest.Wait()
			}
		}
		if n := skips(r, "full"); n != 2*30 {
			t.Errorf("%d are counted", n)
		}
		if pending, _ := heldBy(r); pending != queueLen+workers {
			t.Errorf("%d are pending", pending)
		}
		close(world.hold)
		synctest.Wait()
		if n := world.left(); n != 30 {
			t.Errorf("%d are left", n)
		}
		time.Sleep(lookEvery + time.Second)
		if n := world.left(); n != 0 {
			t.Errorf("after the planner has looked %d are left", n)
		}
		if n := outcomes(r, status.OK); n != all {
			t.Errorf("%d were repaired", n)
		}
		for _, root := range numbered(all) {
			if n := world.tries(root); n != 1 {
				t.Fatalf("%s was fetched %d times", root, n)
			}
		}
	})
}

// TestRepairBacksOff: after a failure, and after another, it takes longer until
// the next try; a table of a fixed size remembers that.
func TestRepairBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := numbered(1)[0]
		world := &rotten{size: 1000, marked: numbered(1), fail: status.Errorf(status.Upstream, "nobody answers")}
		r := mending(t, 50<<20, world)
		synctest.Wait()
		tries := 1
		for wait := minWait; wait < 2*maxWait; wait *= 2 {
			wait := min(wait, maxWait)
			if n := world.tries(root); n != tries {
				t.Fatalf("after %s: %d tries", wait, n)
			}
			before := skips(r, "backoff")
			r.Damaged(root)
			synctest.Wait()
			if skips(r, "backoff") != before+1 || world.tries(root) != tries {
				t.Fatalf("it is tried again at once after %d tries", tries)
			}
			// The planner looks every ten minutes, so it may be the one to try.
			for world.tries(root) == tries {
				time.Sleep(time.Minute)
				r.Damaged(root)
				synctest.Wait()
			}
			tries++
		}
		if n := outcomes(r, status.Upstream); n != tries {
			t.Errorf("%d failures are counted", n)
		}
		world.mu.Lock()
		world.fail = nil
		world.mu.Unlock()
		time.Sleep(maxWait + lookEvery)
		if n := world.left(); n != 0 {
			t.Error("it is not repaired once it can be")
		}
		if _, n := heldBy(r); n != 0 {
			t.Errorf("%d failures are remembered", n)
		}
		for _, root := range numbered(3 * maxFailed) {
			r.backOff(root)
		}
		if _, n := heldBy(r); n != maxFailed {
			t.Errorf("%d failures are remembered", n)
		}
	})
}

// TestRepairOfWhatNobodyWants: neither is it fetched, nor looked at again at once.
func TestRepairOfWhatNobodyWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := numbered(3)
		world := &rotten{size: 1000, marked: numbered(2), unwanted: map[b3.Root]bool{roots[0]: true}}
		r := mending(t, 50<<20, world)
		r.Damaged(roots[2]) // removed meanwhile
		synctest.Wait()
		if world.tries(roots[0]) != 0 || world.tries(roots[1]) != 1 || world.tries(roots[2]) != 0 {
			t.Errorf("fetched: %v", world.fetched)
		}
		if n := skips(r, "unwanted"); n != 1 {
			t.Errorf("%d are counted", n)
		}
		r.Damaged(roots[0])
		if n := skips(r, "backoff"); n != 1 {
			t.Errorf("%d are put off", n)
		}
		world.mu.Lock()
		world.unwanted = nil // it was pinned, or used
		world.mu.Unlock()
		time.Sleep(lookEvery + time.Second)
		if n := world.tries(roots[0]); n != 1 {
			t.Errorf("once it is wanted there are %d tries", n)
		}
	})
}

// TestRepairPanics: it ends that repair, and neither the worker nor the planner.
func TestRepairPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := numbered(2 * workers)
		world := &rotten{size: 1000, marked: slices.Clone(roots), panics: true}
		r := mending(t, 50<<20, world)
		synctest.Wait()
		for _, root := range roots {
			if n := world.tries(root); n != 1 {
				t.Errorf("%s was tried %d times", root, n)
			}
		}
		world.mu.Lock()
		world.panics = false
		world.mu.Unlock()
		time.Sleep(lookEvery + time.Second)
		if pending, _ := heldBy(r); world.left() != 0 || pending != 0 {
			t.Errorf("%d are left, %d pending", world.left(), pending)
		}
	})
}

// TestRepairPace: all repairs together keep to the rate.
func TestRepairPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, objects, size = 1 << 20, 6, 5 << 20
		world := &rotten{size: size, marked: numbered(objects)}
		begun := time.Now()
		r := mending(t, rate, world)
		for world.left() > 0 {
			time.Sleep(10 * time.Millisecond)
			got := testutil.ToFloat64(r.m.bytes.WithLabelValues(damage)) // counted before they are waited for
			if most := rate*time.Since(begun).Seconds() + burst + workers*b3.GroupSize; got > most {
				t.Fatalf("%v bytes after %s", got, time.Since(begun))
			}
		}
		if took, want := time.Since(begun), time.Duration(objects*size-burst)*time.Second/rate; took < want ||
			took > want+time.Second {
			t.Errorf("it took %s, want %s", took, want)
		}
		if n := testutil.ToFloat64(r.m.bytes.WithLabelValues(damage)); n != objects*size {
			t.Errorf("%v bytes are counted", n)
		}
	})
}

// TestReceivedPace: what a node sends and what it receives for repairs takes from one rate, in turn.
func TestReceivedPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, each, chunk = 1 << 20, 10 << 20, b3.GroupSize
		r := mending(t, rate, nil)
		begun := time.Now()
		var took [2]time.Duration
		var wg sync.WaitGroup
		for i, wait := range []func(ctx context.Context, n int) error{
			r.meter(Job{Kind: Replicate}, string(Replicate)), r.Received,
		} {
			wg.Go(func() {
				for range each / chunk {
					if err := wait(t.Context(), chunk); err != nil {
						t.Error(err)
					}
				}
				took[i] = time.Since(begun)
			})
		}
		wg.Wait()
		const all = (2*each - burst) * time.Second / rate
		for i, d := range took {
			if d < all-2*time.Second || d > all { // one of them got the burst
				t.Errorf("%d ended after %s, both together take %s", i, d, all)
			}
		}
		for _, kind := range []string{string(Replicate), receive} {
			if n := testutil.ToFloat64(r.m.bytes.WithLabelValues(kind)); n != each {
				t.Errorf("%v bytes of %s are counted", n, kind)
			}
		}
	})
}

// TestJobsCountBytes: bytes of a job count under its kind when they are sent, and as fetched when shards are made of
// them. Those that somebody waits for count too, and wait for no rate.
func TestJobsCountBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, n = 1 << 20, 10 << 20
		r := mending(t, rate, nil)
		for _, c := range []struct {
			job  Job
			took time.Duration
		}{
			{Job{Kind: Rebuild, Awaited: true}, 0},
			{Job{Kind: Replicate}, (2*n - burst) * time.Second / rate},
			{Job{Kind: Move}, (2*n - burst) * moveShare * time.Second / rate},
		} {
			c.job.Run = func(ctx context.Context, meter Meter) error {
				if meter.Awaited != c.job.Awaited {
					t.Errorf("the meter of %+v says %v", c.job, meter.Awaited)
				}
				for range n / b3.GroupSize {
					if err := errors.Join(meter.Fetched(ctx, b3.GroupSize), meter.Sent(ctx, b3.GroupSize)); err != nil {
						t.Fatal(err)
					}
				}
				return nil
			}
			fetched := testutil.ToFloat64(r.m.bytes.WithLabelValues(fetch))
			begun := time.Now()
			r.do(t.Context(), c.job)
			if took := time.Since(begun); took < c.took-time.Second || took > c.took {
				t.Errorf("%s took %s, want %s", c.job.Kind, took, c.took)
			}
			sent := testutil.ToFloat64(r.m.bytes.WithLabelValues(string(c.job.Kind)))
			if fetched = testutil.ToFloat64(r.m.bytes.WithLabelValues(fetch)) - fetched; sent != n || fetched != n {
				t.Errorf("%v bytes of %s and %v that were fetched are counted, want %d of each",
					sent, c.job.Kind, fetched, n)
			}
		}
	})
}

// TestRepairsAreOff: while repairs are off, damaged objects are counted and not queued, and
// Fetch still repairs an object.
func TestRepairsAreOff(t *testing.T) {
	for name, c := range map[string]struct {
		rate  limits.Bytes
		serve bool
	}{"no rate": {0, true}, "not wanted": {50 << 20, false}} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			r, err := New(c.rate, c.serve, env.Env{Metrics: reg, Limits: limits.NewRegistry(reg)})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Off() {
				t.Fatal("they are not off")
			}
			for _, root := range numbered(2 * queueLen) {
				r.Damaged(root)
			}
			if n := skips(r, "off"); n != 2*queueLen {
				t.Errorf("%d are counted", n)
			}
			if pending, _ := heldBy(r); r.queue.Len() != 0 || pending != 0 {
				t.Errorf("%d are queued, %d pending", r.queue.Len(), pending)
			}
			world := &rotten{size: 3 * b3.GroupSize, marked: numbered(1)}
			if err := r.fetch(t.Context(), world.ops(), numbered(1)[0]); err != nil || world.left() != 0 {
				t.Errorf("by name: %v", err)
			}
		})
	}
}

// TestRepairListFails: the planner says so, and tries again.
func TestRepairListFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := &rotten{size: 1000, marked: numbered(1)}
		ops := world.ops()
		var works atomic.Bool
		list := ops.corrupt
		ops.corrupt = func(ctx context.Context) iter.Seq2[b3.Root, error] {
			if works.Load() {
				return list(ctx)
			}
			return func(yield func(b3.Root, error) bool) { yield(b3.Root{}, io.ErrUnexpectedEOF) }
		}
		r := mending(t, 50<<20, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.run(ctx, ops) })
		synctest.Wait()
		if world.left() != 1 {
			t.Error("it was repaired without being listed")
		}
		works.Store(true)
		time.Sleep(lookEvery + time.Second)
		if world.left() != 0 {
			t.Error("it is not repaired")
		}
		cancel()
		wg.Wait()
	})
}
