package cores

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/protocols/status"
)

// TestOrder: with all cores busy, foreground work goes before background work that came earlier, and each class in
// its order; background work never takes the last core of several.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cores, held int
		come        []Class
		want        []int // indexes of come, in the order in which they got a slot
	}{
		{1, 1, []Class{Background, Foreground, Background, Foreground}, []int{1, 3, 0, 2}},
		{2, 2, []Class{Background, Background, Foreground}, []int{2, 0, 1}},
		{2, 0, []Class{Background, Background, Foreground}, []int{0, 2, 1}},
		{2, 1, []Class{Background, Foreground}, []int{1, 0}},
		{3, 1, []Class{Background, Background, Foreground}, []int{0, 2, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := New(c.cores)
			for range c.held {
				p.Enter(Foreground)
			}
			var mu sync.Mutex
			var got []int
			var wg sync.WaitGroup
			for i, class := range c.come {
				wg.Go(func() {
					p.Enter(class)
					mu.Lock()
					got = append(got, i)
					mu.Unlock()
					time.Sleep(time.Millisecond)
					p.Leave(class)
				})
				synctest.Wait()
			}
			for range c.held {
				p.Leave(Foreground)
				synctest.Wait()
				time.Sleep(10 * time.Millisecond)
			}
			wg.Wait()
			if !slices.Equal(got, c.want) || p.InUse() != 0 {
				t.Errorf("%+v: %v", c, got)
			}
		})
	}
}

// TestBackgroundGoesOn: foreground work that never ends leaves background work a piece in backgroundEvery.
func TestBackgroundGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		ctx, stop := context.WithCancel(t.Context())
		var done [classes]atomic.Int64
		var wg sync.WaitGroup
		work := func(c Class) {
			for ctx.Err() == nil {
				p.Enter(c)
				time.Sleep(time.Millisecond)
				p.Leave(c)
				done[c].Add(1)
			}
		}
		for range 8 {
			wg.Go(func() { work(Foreground) })
		}
		for range 3 {
			wg.Go(func() { work(Background) })
		}
		time.Sleep(10 * time.Second)
		stop()
		wg.Wait()
		fg, bg := done[Foreground].Load(), done[Background].Load()
		if bg < 400 || bg > 550 || fg < 19000 {
			t.Errorf("%d pieces of the foreground and %d of the background in 10 s", fg, bg)
		}
	})
}

// TestAcquire: a wait ends with its context, and too many are refused; neither takes a slot.
func TestAcquire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		p := New(1)
		p.Register(reg)
		p.Enter(Background)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Acquire(ctx, Foreground); status.Of(err) != status.Timeout {
			t.Errorf("after the deadline: %v", err)
		}
		var wg sync.WaitGroup
		ctx, cancel = context.WithCancel(t.Context())
		for range MaxWaiting {
			wg.Go(func() {
				if err := p.Acquire(ctx, Foreground); status.Of(err) != status.Canceled {
					t.Errorf("canceled: %v", err)
				}
			})
		}
		synctest.Wait()
		if err := p.Acquire(t.Context(), Foreground); status.Of(err) != status.Busy {
			t.Errorf("the line is full: %v", err)
		}
		if n := p.Waiting(); n != MaxWaiting {
			t.Errorf("%d wait", n)
		}
		cancel()
		wg.Wait()
		p.Leave(Background)
		if err := p.Acquire(t.Context(), Foreground); err != nil || p.InUse() != 1 {
			t.Errorf("%v, %d in use", err, p.InUse())
		}
		p.Leave(Foreground)
		if n, err := testutil.GatherAndCount(reg, "cpu_wait_seconds"); err != nil || n != 2 {
			t.Errorf("%d series, %v", n, err)
		}
	})
	var none *Pool
	none.Enter(Foreground)
	none.Leave(Foreground)
	if none.Acquire(t.Context(), Background) != nil {
		t.Error("a nil pool refuses")
	}
}

// TestSlots: never more pieces run than there are cores, and all of them run.
func TestSlots(t *testing.T) {
	t.Parallel()
	const cores = 3
	p := New(cores)
	var running, most, bg, all atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		c := Class(i % 2)
		wg.Go(func() {
			for range 500 {
				if p.Acquire(t.Context(), c) != nil {
					t.Error("refused")
					return
				}
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if c == Background && bg.Add(1) > cores-1 {
					t.Error("background work has every core")
				}
				runtime.Gosched()
				if c == Background {
					bg.Add(-1)
				}
				running.Add(-1)
				p.Leave(c)
				all.Add(1)
			}
		})
	}
	wg.Wait()
	if most.Load() > cores || all.Load() != 16*500 || p.InUse() != 0 {
		t.Errorf("%d at once, %d in all, %d in use", most.Load(), all.Load(), p.InUse())
	}
}

func BenchmarkEnter(b *testing.B) {
	p := New(runtime.GOMAXPROCS(0))
	for b.Loop() {
		p.Enter(Foreground)
		p.Leave(Foreground)
	}
}
