package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// bound is one way to take a place of those that there are, and what the limit
// says is taken.
type bound struct {
	name    string
	patient bool // it waits until its context ends; else permit_wait at most
	make    func(t *testing.T, places int64) (take func(ctx context.Context) (give func(), err error),
		registry *limits.Registry)
}

var bounds = []bound{
	{"Budget", true, func(_ *testing.T, places int64) (func(context.Context) (func(), error), *limits.Registry) {
		registry := limits.NewRegistry(nil)
		b := registry.NewBudget(limits.Spec{Name: "b"}, places)
		return func(ctx context.Context) (func(), error) { return func() { b.Release(1) }, b.Acquire(ctx, 1) }, registry
	}},
	{"Gate", true, func(_ *testing.T, places int64) (func(context.Context) (func(), error), *limits.Registry) {
		registry := limits.NewRegistry(nil)
		g := registry.NewGate(limits.Spec{Name: "g"}, places, 4)
		return func(ctx context.Context) (func(), error) {
			give, err := g.Acquire(ctx)
			return func() { give(); give() }, err // the second changes nothing
		}, registry
	}},
	{"permits.acquireForReader", true, func(t *testing.T, places int64) (func(context.Context) (func(), error),
		*limits.Registry) {
		p, registry := permitsOf(t, places)
		return func(dead context.Context) (func(), error) {
			return func() { p.release(1, 0) }, p.acquireForReader(dead)
		}, registry
	}},
	{"permits.frame", false,
		func(t *testing.T, places int64) (func(context.Context) (func(), error), *limits.Registry) {
			p, registry := permitsOf(t, places)
			return func(ctx context.Context) (func(), error) {
				return func() { p.release(1, 0) }, p.frame(ctx, t.Context())
			}, registry
		}},
}

// permitsOf are those of a peer that may have so many frames.
func permitsOf(t *testing.T, places int64) (*permits, *limits.Registry) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, registry := &permits{wait: time.Second, m: m}, limits.NewRegistry(nil)
	family := registry.NewBudget(limits.Spec{Name: "f", Fullest: func() int64 { return p.frames.Used() }}, places)
	p.frames = family.Member()
	return p, registry
}

// takers is how many want a place, each once.
func (b bound) takers() int {
	if testing.Short() || !b.patient {
		return 3
	}
	return 4
}

// taker is one of them.
type taker struct {
	cancel context.CancelFunc
	gone   bool // it was cancelled

	mu    sync.Mutex
	is    doing
	order int // of its asking
	give  func()
	err   error
}

type doing int

const (
	idle doing = iota
	waiting
	holding
	through
)

func (k *taker) now() doing {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.is
}

// contest is one run of takers and a bound.
type contest struct {
	places int64
	takers []*taker
	take   func(ctx context.Context) (func(), error)
	limits *limits.Registry
	asked  int
	over   bool // permit_wait passed
	bad    string
	wg     sync.WaitGroup
}

// TestPermitsInEveryOrder: takers ask, give back and are cancelled, before they
// ask and while they wait, in every order, and once permit_wait passes. The
// bound: bound.takers, of one and of two places. Never are more places taken than there
// are, nor shown; nobody waits while one is free; who came first gets in first;
// who is cancelled does not wait; in the end nothing is taken.
func TestPermitsInEveryOrder(t *testing.T) {
	for _, b := range bounds {
		for _, places := range []int64{1, 2} {
			t.Run(fmt.Sprintf("%s of %d", b.name, places), func(t *testing.T) {
				t.Parallel()
				f, err := contests(t, b, places, "")
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d orders of up to %d actions", f.Orders, f.Longest)
			})
		}
	}
}

// TestPermitsInEveryOrderFindsBugs: the search fails when a place is given back
// two times, or not.
func TestPermitsInEveryOrderFindsBugs(t *testing.T) {
	for _, b := range bounds {
		if b.name == "Gate" {
			continue // which sees to it itself
		}
		for _, bad := range []string{"twice", "never"} {
			if f, err := contests(t, b, 2, bad); err == nil {
				t.Errorf("%s given back %s: nothing found in %d orders", b.name, bad, f.Orders)
			} else {
				t.Logf("%s given back %s: %v", b.name, bad, err)
			}
		}
	}
}

func contests(t *testing.T, b bound, places int64, bad string) (testkit.Found, error) {
	return testkit.Explore(func(o *testkit.Order) (err error) {
		synctest.Test(t, func(t *testing.T) {
			c := &contest{places: places, bad: bad}
			c.take, c.limits = b.make(t, places)
			defer c.wg.Wait()
			for range b.takers() {
				c.takers = append(c.takers, new(taker))
			}
			defer func() {
				for _, k := range c.takers {
					if k.cancel != nil {
						k.cancel()
					}
				}
			}()
			err = c.run(t, o, b.patient)
		})
		return err
	})
}

func (c *contest) run(t *testing.T, o *testkit.Order, patient bool) error {
	for {
		synctest.Wait()
		if err := c.look(); err != nil {
			return err
		}
		var offered []string
		for i, k := range c.takers {
			now := k.now()
			if now == holding {
				offered = append(offered, fmt.Sprint("give ", i))
			}
			if (now == waiting || now == idle) && !k.gone {
				offered = append(offered, fmt.Sprint("cancel ", i))
			}
			if now == idle {
				offered = append(offered, fmt.Sprint("take ", i))
				break // they are all alike: the others ask after this one
			}
		}
		if len(offered) == 0 {
			return nil
		}
		if !patient && !c.over {
			offered = append(offered, "permit_wait")
		}
		action, ok := o.Pick(nil, offered...)
		if !ok {
			return nil
		}
		if err := c.do(t, action); err != nil {
			return err
		}
	}
}

func (c *contest) do(t *testing.T, action string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p) // more given back than was taken
		}
	}()
	var what string
	var i int
	if action == "permit_wait" {
		c.over = true
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if slices.ContainsFunc(c.takers, func(k *taker) bool { return k.now() == waiting }) {
			return errors.New("somebody waits longer than permit_wait")
		}
		return nil
	}
	if _, err := fmt.Sscanf(action, "%s %d", &what, &i); err != nil {
		return err
	}
	k := c.takers[i]
	switch what {
	case "take":
		c.start(t, k)
	case "cancel":
		k.gone = true
		if k.cancel != nil {
			k.cancel()
		}
	case "give":
		k.mu.Lock()
		k.is = through
		k.mu.Unlock()
		if c.bad != "never" {
			k.give()
		}
		if c.bad == "twice" {
			k.give()
		}
	}
	return nil
}

// start lets a taker ask.
func (c *contest) start(t *testing.T, k *taker) {
	ctx, cancel := context.WithCancel(t.Context())
	k.cancel = cancel
	if k.gone {
		cancel()
	}
	c.asked++
	k.is, k.order = waiting, c.asked
	c.wg.Go(func() {
		give, err := c.take(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.is, k.give, k.err = holding, give, err; err != nil {
			k.is = through
		}
	})
}

// look checks what must hold whenever nothing moves.
func (c *contest) look() error {
	var is [through + 1]int64
	first, last := c.asked+1, 0 // who waits since when, who got in of those that came last
	for i, k := range c.takers {
		now := k.now()
		is[now]++
		switch {
		case now == waiting && k.gone:
			return fmt.Errorf("%d waits although it was cancelled", i)
		case now == waiting:
			first = min(first, k.order)
		case now == holding:
			last = max(last, k.order)
		case k.err != nil && k.gone && !errors.Is(k.err, context.Canceled):
			return fmt.Errorf("%d was cancelled and is told: %w", i, k.err)
		case k.err != nil && !k.gone && (!c.over || status.Of(k.err) != status.Busy):
			return fmt.Errorf("%d was not cancelled and is told: %w", i, k.err)
		}
	}
	shown := int64(0)
	for _, l := range c.limits.Snapshot() {
		shown += l.Current
		if l.Peak > c.places {
			return fmt.Errorf("%d places were taken of %d", l.Peak, c.places)
		}
	}
	switch {
	case is[holding] > c.places:
		return fmt.Errorf("%d places are taken of %d", is[holding], c.places)
	case is[waiting] > 0 && is[holding] < c.places:
		return fmt.Errorf("%d wait although %d of %d places are taken", is[waiting], is[holding], c.places)
	case first < last:
		return fmt.Errorf("the one that came as number %d waits, and number %d does not", first, last)
	case shown != is[holding] && c.bad == "":
		return fmt.Errorf("%d places are taken and %d shown", is[holding], shown)
	}
	return nil
}
