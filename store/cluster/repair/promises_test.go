package repair

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/gc"
	"allium/store/meta"
)

// promises is a store of which promised objects are lost, in levels: what is in
// the next one is known when all before came back.
type promises struct {
	rotten
	levels [][]b3.Root
	never  map[b3.Root]bool // nobody has it
	damage bool             // some is open
	walks  int
	whole  int // walks that found nothing
	back   []b3.Root
}

func (p *promises) ops() ops {
	ops := p.rotten.ops()
	fetch := ops.fetch
	ops.fetch = func(ctx context.Context, root b3.Root, ahead int64, took func(int) error) error {
		if p.never[root] {
			return status.Errorf(status.Upstream, "nobody has it")
		}
		return fetch(ctx, root, ahead, took)
	}
	ops.promiseOps = promiseOps{
		follow: func(_ context.Context, must bool, lost func(gc.Lost) error) error {
			p.mu.Lock()
			if !must && !p.damage {
				p.mu.Unlock()
				return nil
			}
			p.walks++
			var left []b3.Root
			for _, level := range p.levels {
				for _, root := range level {
					if !slices.Contains(p.back, root) {
						left = append(left, root)
					}
				}
				if len(left) > 0 {
					break
				}
			}
			if len(left) == 0 {
				p.whole++
				p.damage = false
			}
			p.mu.Unlock()
			for _, root := range left {
				if err := lost(gc.Lost{Root: root, Pin: meta.Pin{Root: b3.Root{1}}}); err != nil {
					return err
				}
			}
			return nil
		},
		promised: func(_ context.Context, l gc.Lost) (bool, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return !slices.Contains(p.back, l.Root), nil
		},
		restored: func(_ context.Context, root b3.Root, absent bool) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if absent {
				p.back = append(p.back, root)
			}
			return nil
		},
	}
	return ops
}

// done returns how many walks there were, how many of them found nothing, and
// what came back.
func (p *promises) done() (walks, whole int, back []b3.Root) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.walks, p.whole, slices.Clone(p.back)
}

// keeping are repairs of what p lost, which run until the test ends.
func keeping(t *testing.T, p *promises) *Repairs {
	t.Helper()
	reg := prometheus.NewRegistry()
	r, err := New(50<<20, true, env.Env{Metrics: reg, Limits: limits.NewRegistry(reg)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.run(ctx, p.ops()) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return r
}

// TestRepairOfWhatIsPromised: lost objects that pins promise are fetched, level by level and
// more than fit the queue, before lookEvery has passed. Then no further walk follows.
func TestRepairOfWhatIsPromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := numbered(4*queueLen + 3)
		p := &promises{levels: [][]b3.Root{roots[:1], roots[1:3], roots[3:]}, damage: true}
		r := keeping(t, p)
		time.Sleep(lookEvery / 2) // far less than a lookEvery, and time for the pace
		synctest.Wait()
		walks, whole, back := p.done()
		// A walk may begin after an object is back and before its repair has ended, which asks for another one.
		if len(back) != len(roots) || whole < 1 || whole > workers {
			t.Fatalf("%d of %d came back in %d walks, %d of which found nothing", len(back), len(roots), walks, whole)
		}
		for _, root := range roots {
			if n := p.tries(root); n != 1 {
				t.Fatalf("%s was fetched %d times", root, n)
			}
		}
		time.Sleep(3 * lookEvery)
		synctest.Wait()
		if n, _, _ := p.done(); n != walks {
			t.Errorf("%d walks more, though nothing is lost", n-walks)
		}
		// A check finds more: it is fetched though no damage is open.
		p.mu.Lock()
		more := b3.Root{0xff}
		p.levels = append(p.levels, []b3.Root{more})
		p.mu.Unlock()
		r.Lost(gc.Lost{Root: more, Pin: meta.Pin{Root: b3.Root{1}}})
		synctest.Wait()
		if _, _, back := p.done(); !slices.Contains(back, more) {
			t.Error("what a check found is not repaired")
		}
	})
}

// TestRepairOfWhatNobodyHas: it is tried now and then, however much it is, and
// what can be had is not kept waiting for long.
func TestRepairOfWhatNobodyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := numbered(2*queueLen + 10)
		p := &promises{levels: [][]b3.Root{roots}, damage: true, never: map[b3.Root]bool{}}
		for _, root := range roots[:2*queueLen] {
			p.never[root] = true
		}
		keeping(t, p)
		time.Sleep(minWait / 2)
		synctest.Wait()
		walks, _, back := p.done()
		if len(back) != 10 {
			t.Errorf("%d of what can be had came back in %d walks", len(back), walks)
		}
		if walks > maxFruitless+4 {
			t.Errorf("%d walks at once", walks)
		}
		time.Sleep(lookEvery)
		synctest.Wait()
		if n, _, _ := p.done(); n == walks {
			t.Error("it is not tried again")
		}
	})
}
