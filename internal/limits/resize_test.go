package limits_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/status"
)

// TestGateResize: a gate that grows serves those that wait at once; one that shrinks takes nothing away, and lets
// nobody in until it has fewer than its size.
func TestGateResize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		g := r.NewGate(spec("gate"), 2, 10)
		var in []func()
		for range 2 {
			in = append(in, must(g.TryAcquire()))
		}
		served := make(chan func(), 3)
		for range 3 {
			go func() { served <- must(g.Acquire(t.Context())) }()
		}
		synctest.Wait()
		g.Resize(4)
		synctest.Wait()
		if len(served) != 2 || capacity(t, r, "gate") != 4 {
			t.Fatalf("%d of those that wait are served, capacity %d", len(served), capacity(t, r, "gate"))
		}
		g.Resize(1)
		for _, leave := range in {
			leave()
		}
		(<-served)()
		synctest.Wait()
		if len(served) != 1 { // three of four have left, and one place is all there is
			t.Fatalf("%d are in", len(served)+1)
		}
		(<-served)()
		synctest.Wait()
		if len(served) != 1 {
			t.Fatal("the last is not served")
		}
		if _, err := g.TryAcquire(); status.Of(err) != status.Busy {
			t.Errorf("a second one is in: %v", err)
		}
		(<-served)()
	})
}

// TestResizedNeverExceeds: whatever is taken, released and resized, what is in use is at most the size, or no more than
// before; and when all is released, exactly the size is free.
func TestResizedNeverExceeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := limits.NewRegistry(nil)
		size := rapid.Int64Range(1, 100).Draw(t, "size")
		b := r.NewBudget(spec("bytes"), size)
		var held []int64
		used := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.Int64Range(1, 10).Draw(t, "n")
				free := size - used
				if took := b.Take(n); took != (n <= free) {
					t.Fatalf("%d of %d used, %d taken: %v", used, size, n, took)
				} else if took {
					held, used = append(held, n), used+n
				}
			},
			"release": func(t *rapid.T) {
				if len(held) > 0 {
					b.Release(held[0])
					used -= held[0]
					held = held[1:]
				}
			},
			"resize": func(t *rapid.T) {
				size = rapid.Int64Range(1, 100).Draw(t, "size")
				b.Resize(size)
			},
		})
		for _, n := range held {
			b.Release(n)
		}
		if b.Take(size+1) || !b.Take(size) {
			t.Fatalf("not exactly %d are free in the end", size)
		}
	})
}

// TestKeyedGateResize: who waits gets the places that a key has more of, and none is handed on while a key has too
// many; 0 is no bound.
func TestKeyedGateResize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		g, line := limits.NewKeyedGate[string](r, spec("each"), 1), r.NewGate(spec("line"), 10, 0)
		first := must(g.Enter("a"))
		served := make(chan func(), 4)
		for range 4 {
			go func() { served <- must(g.Await(t.Context(), "a", line)) }()
		}
		synctest.Wait()
		g.Resize(3)
		synctest.Wait()
		if len(served) != 2 {
			t.Fatalf("%d are served", len(served))
		}
		g.Resize(1)
		first()
		(<-served)()
		synctest.Wait()
		if len(served) != 1 {
			t.Fatalf("a place was handed on beyond the bound: %d", len(served))
		}
		if _, err := g.Enter("a"); status.Of(err) != status.Busy {
			t.Errorf("%v", err)
		}
		g.Resize(0)
		synctest.Wait()
		if len(served) != 3 {
			t.Fatalf("%d are served", len(served))
		}
		must(g.Enter("a"))()
		for range 3 {
			(<-served)()
		}
		g.Resize(1)
		leave := must(g.Enter("a"))
		if _, ok := g.Try("a"); ok || current(t, r, "each") != 1 {
			t.Errorf("two are in, or %d are counted", current(t, r, "each"))
		}
		leave()
		if n := current(t, r, "each"); n != 0 {
			t.Errorf("%d are counted", n)
		}
	})
}

// TestFairRateSet: those that wait get their tokens at the new rate, and at once when there is none any more;
// requests in flight count on when the bound of each changes.
func TestFairRateSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, s := newFairRate(limits.FairRateConfig{PerSecond: 1, Burst: 1, Each: 2, Wait: time.Minute})
		free := func() (func(), bool) { return func() {}, true }
		share := must(s.Enter(1))
		begun := time.Now()
		results := make(chan error, 2)
		wait := func() {
			_, err := s.Await(t.Context(), 1, free)
			results <- err
		}
		go wait()
		synctest.Wait()
		s.Set(limits.FairRateConfig{PerSecond: 100, Burst: 1, Each: 2, Wait: time.Minute})
		if err := <-results; err != nil || time.Since(begun) > 20*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if _, err := s.Enter(1); status.Of(err) != status.Busy {
			t.Errorf("a third of two: %v", err)
		}
		s.Set(limits.FairRateConfig{PerSecond: 100, Burst: 1, Each: 3, Wait: time.Minute})
		go wait()
		synctest.Wait()
		s.Set(limits.FairRateConfig{})
		if err := <-results; err != nil {
			t.Error(err)
		}
		for range 1000 { // nothing is bounded
			must(s.Enter(1)).Leave()
		}
		s.Set(limits.FairRateConfig{PerSecond: 1, Burst: 5, Each: 3})
		if n := current(t, r, "each"); n != 3 {
			t.Errorf("%d are counted", n)
		}
		if _, err := s.Enter(1); status.Of(err) != status.Busy {
			t.Errorf("a fourth of three: %v", err)
		}
		share.Leave()
		must(s.Enter(1))
	})
}

// TestRateSet: buckets of a family follow its rate, and each one its own.
func TestRateSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		f := r.NewRate(family("family"), 1, 1)
		one := r.NewRate(spec("rate"), 1, 1)
		two := f.Member()
		one.Set(10, 5)
		f.Set(10, 5)
		for _, bucket := range []*limits.Rate{one, two, f.Member()} {
			for bucket.Take() {
			}
			time.Sleep(time.Second)
			n := 0
			for bucket.Take() {
				n++
			}
			if n != 5 {
				t.Errorf("%d tokens", n)
			}
		}
		if n, m := capacity(t, r, "family"), capacity(t, r, "rate"); n != 10 || m != 10 {
			t.Errorf("it says %d and %d", n, m)
		}
	})
}

// TestKeyedRate: each key has a bucket of its own, which it finds again, until as many others have come since; all
// follow the rate that is set.
func TestKeyedRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := limits.NewKeyedRate[string](limits.NewRegistry(nil), family("keyed"), 1, 1, 2)
		for _, key := range []string{"a", "b"} {
			if !k.Of(key).Take() || k.Of(key).Take() {
				t.Errorf("%s does not have one token", key)
			}
		}
		k.Set(10, 5)
		if k.Of("a").Take() {
			t.Error("it got a token at once")
		}
		time.Sleep(time.Second)
		for range 5 {
			if err := k.Of("a").Allow(); err != nil {
				t.Error(err)
			}
		}
		wantLimit(t, k.Of("a").Allow(), status.RateLimit, "keyed")
		if !k.Of("c").Take() || k.Of("a").Take() || !k.Of("b").Take() {
			t.Error("the key that was used last is forgotten, or the one before is not")
		}
	})
}

// TestResizeWhileUsed: many take and leave while the size changes; nothing is lost.
func TestResizeWhileUsed(t *testing.T) {
	t.Parallel()
	r := limits.NewRegistry(nil)
	g := r.NewGate(spec("gate"), 3, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	var users, resizer sync.WaitGroup
	resizer.Go(func() {
		for n := int64(1); ctx.Err() == nil; n = n%7 + 1 {
			g.Resize(n)
		}
	})
	for range 8 {
		users.Go(func() {
			for range 2000 {
				leave, err := g.Acquire(t.Context())
				if errors.Is(err, context.Canceled) {
					return
				}
				must(leave, err)()
			}
		})
	}
	users.Wait()
	cancel()
	resizer.Wait()
	g.Resize(5)
	for range 5 {
		must(g.TryAcquire())
	}
	if _, err := g.TryAcquire(); err == nil {
		t.Error("a sixth of five is in")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func current(t *testing.T, r *limits.Registry, name string) int64  { return info(t, r, name).Current }
func capacity(t *testing.T, r *limits.Registry, name string) int64 { return info(t, r, name).Capacity }

func info(t *testing.T, r *limits.Registry, name string) limits.Info {
	for _, i := range r.Snapshot() {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("there is no limit %s", name)
	return limits.Info{}
}

// TestFairQueueResizeWorkers: with more workers the items that wait run at once; with fewer, what runs goes on, and
// nothing else runs until there are fewer.
func TestFairQueueResizeWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := limits.NewFairQueue[string, int](nil, spec("q"), 10, 1)
		for i, k := range []string{"a", "b", "c", "d"} {
			put(t, q, k, i)
		}
		wantGet(t, q, 0)
		got := make(chan int, 4)
		for range 3 {
			go func() { got <- must(q.Get(t.Context())) }()
		}
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("two run")
		}
		q.ResizeWorkers(3)
		synctest.Wait()
		if len(got) != 2 {
			t.Fatalf("%d run, not 3", 1+len(got))
		}
		q.ResizeWorkers(1)
		q.Done("a")
		q.Done("b")
		synctest.Wait()
		if len(got) != 2 {
			t.Fatal("another one runs beside c")
		}
		q.Done("c")
		synctest.Wait()
		if len(got) != 3 {
			t.Fatal("the last does not run")
		}
	})
}
