package limits_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/limits"
	"allium/protocols/status"
)

func spec(name string) limits.Spec { return limits.Spec{Name: name} }

// family names a limit that each peer has for itself.
func family(name string) limits.Spec { return limits.Spec{Name: name, Each: "peer"} }

func wantLimit(t *testing.T, err error, o status.Outcome, name string) *status.Limit {
	t.Helper()
	var e *status.Error
	if !errors.As(err, &e) || e.Outcome != o || e.Limit == nil || e.Limit.Name != name {
		t.Fatalf("got %v, want %s of %s", err, o, name)
	}
	if e.Limit.RetryAfter < 100*time.Millisecond || e.Limit.RetryAfter > 30*time.Second {
		t.Fatalf("retry_after %s is out of its bounds", e.Limit.RetryAfter)
	}
	return e.Limit
}

func TestGateRunsNWaitsMRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limits.NewRegistry(nil).NewGate(spec("g"), 2, 3)
		var running, peak, ran, busy atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				release, err := g.Acquire(t.Context())
				if err != nil {
					wantLimit(t, err, status.Busy, "g")
					busy.Add(1)
					return
				}
				defer release()
				if n := running.Add(1); n > peak.Load() {
					peak.Store(n)
				}
				time.Sleep(time.Second)
				running.Add(-1)
				ran.Add(1)
			})
		}
		wg.Wait()
		if ran.Load() != 5 || busy.Load() != 5 || peak.Load() != 2 {
			t.Errorf("ran %d, busy %d, at once %d; want 5, 5, 2", ran.Load(), busy.Load(), peak.Load())
		}
	})
}

// TestGateTellsBeforehand: Try and Full take nothing and wait for nothing when there is no place, and Full
// refuses as Acquire would.
func TestGateTellsBeforehand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		g := r.NewGate(spec("g"), 1, 1)
		if !g.Try() || g.Try() || g.Full() != nil {
			t.Error("a place taken, and an empty line")
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if release, err := g.Acquire(t.Context()); err == nil {
				release()
			}
		})
		synctest.Wait()
		if i := r.Snapshot()[0]; i.Rejected != 0 {
			t.Errorf("%+v", i)
		}
		wantLimit(t, g.Full(), status.Busy, "g")
		if i := r.Snapshot()[0]; i.Current != 1 || i.Waiting != 1 || i.Rejected != 1 {
			t.Errorf("%+v", i)
		}
		g.Leave()
		wg.Wait()
		if g.Full() != nil || !g.Try() {
			t.Error("it is full although nobody is inside")
		}
		g.Leave()

		c := limits.NewKeyedGate[string](r, spec("each"), 1)
		leave, ok := c.Try("a")
		if _, again := c.Try("a"); !ok || again {
			t.Errorf("%v, %v", ok, again)
		}
		if i := r.Snapshot()[0]; i.Current != 1 || i.Rejected != 0 {
			t.Errorf("%+v", i)
		}
		leave()
		if leave, ok := c.Try("a"); ok {
			leave()
		} else {
			t.Error("the place was not given back")
		}
	})
}

// TestGateShowsItsLine: who watches the limits sees how many wait.
func TestGateShowsItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		g := r.NewGate(spec("g"), 1, 3)
		release, err := g.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if release, err := g.Acquire(t.Context()); err == nil {
				release()
			}
		})
		synctest.Wait()
		r.NewRate(spec("no line"), 1, 1)
		if lines := r.Queues(); len(lines) != 1 || lines[0] != r.Snapshot()[0] {
			t.Errorf("%+v", lines)
		}
		if i := r.Snapshot()[0]; i.Current != 1 || i.Waiting != 1 || i.MaxWaiting != 3 {
			t.Errorf("%+v", i)
		}
		release()
		wg.Wait()
		if i := r.Snapshot()[0]; i.Current != 0 || i.Waiting != 0 {
			t.Errorf("%+v", i)
		}
	})
}

func TestGateRefusesWhatCannotMakeItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limits.NewRegistry(nil).NewGate(spec("g"), 1, 10)
		for range 5 { // one a second: the drain rate that the estimate rests on
			release, err := g.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			release()
		}
		release, _ := g.Acquire(t.Context())
		defer release()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := g.Acquire(ctx)
		wantLimit(t, err, status.Busy, "g")
		if waited := time.Since(start); waited != 0 {
			t.Errorf("it waited %s before it refused", waited)
		}
	})
}

func TestGateGivesUpItsPlaceWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limits.NewRegistry(nil).NewGate(spec("g"), 1, 1)
		release, _ := g.Acquire(t.Context())
		for range 3 { // each waiter leaves, so the line never fills
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := g.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		release()
		release() // idempotent
		a, err := g.TryAcquire()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.TryAcquire(); err == nil {
			t.Error("a second release made a second place")
		}
		a()
	})
}

func TestQueuePolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		q := limits.NewQueue[int](r, spec("q"), 2)
		for i := range 2 {
			if err := q.TryPut(i); err != nil {
				t.Fatal(err)
			}
		}
		l := wantLimit(t, q.TryPut(2), status.Busy, "q")
		if l.Current != 2 || l.Cap != 2 {
			t.Errorf("limit %+v", l)
		}
		start := time.Now()
		wantLimit(t, q.Put(t.Context(), 2, 100*time.Millisecond), status.Busy, "q")
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("Put waited %s", d)
		}
		for want := range 2 {
			if v, err := q.Get(t.Context()); err != nil || v != want {
				t.Errorf("got %d, %v; want %d", v, err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := q.Get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		info := r.Snapshot()[0]
		if info.Current != 0 || info.Peak != 2 || info.Rejected != 2 {
			t.Errorf("%+v", info)
		}
	})
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := limits.NewRegistry(nil)
		r := reg.NewRate(spec("r"), 10, 2)
		if err := r.Allow(); err != nil {
			t.Fatal(err)
		}
		if !r.Take() || r.Take() || reg.Snapshot()[0].Rejected != 0 {
			t.Error("Take does not take the second of two tokens alone, or counts a refusal")
		}
		l := wantLimit(t, r.Allow(), status.RateLimit, "r")
		time.Sleep(l.RetryAfter)
		if err := r.Allow(); err != nil {
			t.Errorf("after the wait it was told: %v", err)
		}
	})
}

func TestFamilyCountsTogetherLimitsApart(t *testing.T) {
	reg := limits.NewRegistry(nil)
	f := reg.NewRate(family("f"), 1, 1)
	a, b := f.Member(), f.Member()
	for _, bucket := range []*limits.Rate{a, b} {
		if err := bucket.Allow(); err != nil {
			t.Errorf("one bucket spent the other's tokens: %v", err)
		}
		wantLimit(t, bucket.Allow(), status.RateLimit, "f")
	}
	if got := reg.Snapshot()[0].Rejected; got != 2 {
		t.Errorf("rejected %d", got)
	}
}

func TestQueueFamilyCountsTogetherLimitsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := limits.NewRegistry(nil)
		f := limits.NewQueue[int](reg, family("f"), 3)
		if i := reg.Snapshot()[0]; i.Kind != limits.KindQueue || i.Capacity != 3 || i.Current != 0 {
			t.Errorf("without queues: %+v", i)
		}
		a, b := f.Member(), f.Member()
		for i := range 3 {
			if err := a.TryPut(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.TryPut(7); err != nil {
			t.Errorf("one queue took the other's room: %v", err)
		}
		if l := wantLimit(t, a.TryPut(3), status.Busy, "f"); l.Current != 3 || l.Cap != 3 {
			t.Errorf("limit %+v", l)
		}
		wantLimit(t, a.Put(t.Context(), 3, 100*time.Millisecond), status.Busy, "f")
		if v, ok := b.TryGet(); !ok || v != 7 {
			t.Errorf("got %d, %v", v, ok)
		}
		if i := reg.Snapshot()[0]; i.Current != 3 || i.Peak != 3 || i.Rejected != 2 {
			t.Errorf("%+v", i)
		}
		if v, ok := a.TryGet(); !ok || v != 0 {
			t.Errorf("got %d, %v", v, ok)
		}
		if i := reg.Snapshot()[0]; i.Current != 2 || i.Peak != 3 {
			t.Errorf("current is not the deepest: %+v", i)
		}
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limits.NewRegistry(nil)
		b := r.NewBudget(spec("b"), 100)
		wantLimit(t, b.Acquire(t.Context(), 101), status.Busy, "b")
		if err := b.Acquire(t.Context(), 80); err != nil {
			t.Fatal(err)
		}
		wantLimit(t, b.TryAcquire(30), status.Busy, "b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Acquire(ctx, 30); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		b.Release(80)
		if err := b.Acquire(t.Context(), 100); err != nil {
			t.Error(err)
		}
		if i := r.Snapshot()[0]; i.Current != 100 || i.Peak != 100 || i.Rejected != 2 {
			t.Errorf("%+v", i)
		}
	})
}

func TestBudgetFamilyCountsTogetherLimitsApart(t *testing.T) {
	reg := limits.NewRegistry(nil)
	var a, b *limits.Budget
	s := family("f")
	s.Fullest = func() int64 { return max(a.Used(), b.Used()) }
	f := reg.NewBudget(s, 10)
	a, b = f.Member(), f.Member()
	if !a.Take(8) || !b.Take(9) {
		t.Fatal("one budget took the other's bytes")
	}
	if l := wantLimit(t, a.TryAcquire(3), status.Busy, "f"); l.Current != 8 || l.Cap != 10 {
		t.Errorf("limit %+v", l)
	}
	wantLimit(t, b.Refuse(1), status.Busy, "f")
	b.Release(9)
	if i := reg.Snapshot()[0]; i.Kind != limits.KindBudget || i.Capacity != 10 || i.Current != 8 || i.Peak != 9 ||
		i.Rejected != 2 {
		t.Errorf("%+v", i)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := limits.NewRegistry(reg)
	q := limits.NewQueue[int](r, spec("a.q"), 1)
	g := r.NewGate(spec("a.g"), 1, 0)
	if err := q.TryPut(1); err != nil {
		t.Fatal(err)
	}
	_ = q.TryPut(2)
	release, _ := g.TryAcquire()
	defer release()
	_, _ = g.TryAcquire()
	want := `
# HELP busy_rejections_total Requests refused with busy or rate_limit.
# TYPE busy_rejections_total counter
busy_rejections_total{endpoint="a.g"} 1
# HELP queue_depth How much of each bounded queue, gate and budget is in use.
# TYPE queue_depth gauge
queue_depth{queue="a.g"} 1
queue_depth{queue="a.q"} 1
# HELP queue_dropped_total Items refused or dropped because a queue was full.
# TYPE queue_dropped_total counter
queue_dropped_total{queue="a.q"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "busy_rejections_total", "queue_depth",
		"queue_dropped_total"); err != nil {
		t.Error(err)
	}
}

func TestNilRegistryWorks(t *testing.T) {
	var r *limits.Registry
	if err := limits.NewQueue[int](r, spec("q"), 1).TryPut(1); err != nil {
		t.Error(err)
	}
	if err := limits.NewQueue[int](r, family("f"), 1).Member().TryPut(1); err != nil {
		t.Error(err)
	}
	if r.Snapshot() != nil {
		t.Error("a nil registry lists limits")
	}
}

// TestRateUnderFlood: however many ask at once, a bucket gives its burst and
// what time refills, no more and no less.
func TestRateUnderFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reg *limits.Registry
		r := reg.NewRate(spec("r"), 1000, 1000)
		for second := range 3 {
			var admitted atomic.Int64
			var flood sync.WaitGroup
			for range 64 {
				flood.Go(func() {
					for range 100 {
						if r.Allow() == nil {
							admitted.Add(1)
						}
					}
				})
			}
			flood.Wait()
			if admitted.Load() != 1000 {
				t.Errorf("second %d: %d were admitted", second, admitted.Load())
			}
			time.Sleep(time.Second)
		}
	})
}
