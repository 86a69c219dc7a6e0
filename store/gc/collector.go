package gc

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/store/admission"
	"allium/store/bloom"
	"allium/store/damage"
	"allium/store/lease"
	"allium/store/meta"
	"allium/store/partial"
)

// Backend is what a collection needs of the backend of a store.
type Backend interface {
	// Get returns the entry of a visible object.
	Get(root b3.Root) (e meta.Entry, ok bool, err error)
	// UsedAt is the last use of e: when it was added, or touched later.
	UsedAt(e meta.Entry) (meta.Second, error)
	// RemoveAll deletes visible objects, each given once.
	RemoveAll(ctx context.Context, es []meta.Entry) error
	// Pins appends pins from (root, label) on to page up to its capacity.
	Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)
	Totals() *meta.Totals
	Damages() *damage.List
	Failure() error
}

// Partials are the objects of which a part is here.
type Partials interface {
	// Find returns what is here of root.
	Find(root b3.Root) (rec partial.Record, ok bool, err error)
	// All yields them in order of address.
	All(ctx context.Context) iter.Seq2[partial.Record, error]
	// Remove is conflict while somebody uses what is here of root, and not_found
	// when there is nothing.
	Remove(ctx context.Context, root b3.Root) error
	// Running reports whether root is being downloaded.
	Running(root b3.Root) bool
	// Bytes is how many bytes are here of all of them.
	Bytes() int64
}

// Uses are the last uses of objects that the backend may not know of, and holds.
type Uses interface {
	// Flush tells the backend of the uses that it does not know.
	Flush(ctx context.Context) error
	// UsedAt is the last use of root that the backend may not know of, 0 for none.
	UsedAt(root b3.Root) meta.Second
	// Holding reports whether there is a hold.
	Holding() bool
	// Held reports whether a hold keeps root, which was used last at used.
	Held(root b3.Root, used meta.Second) bool
}

// Deps are what a Collector works with. Metrics may be nil.
type Deps struct {
	Backend   Backend
	Partials  Partials
	Uses      Uses
	Leases    *lease.Table
	Admission *admission.Control
	Account   *Account
	Clock     *meta.Clock
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Duty      float64 // share of the time that a collection works

	// Entries and Pins yield all objects and all pins, in order.
	Entries func(ctx context.Context) iter.Seq2[meta.Entry, error]
	Pins    func(ctx context.Context) iter.Seq2[meta.Pin, error]

	// Node reads the directory root, verified. It returns nil when root is not here
	// or no directory, and an error with meta.ErrDamagedDirectory in its chain when
	// it is damaged. It is no use.
	Node func(ctx context.Context, root b3.Root) (*manifest.Node, error)
}

// Collector finds out what nothing holds, and removes what the store has no space
// for. One collection runs at a time. Its methods are safe for concurrent use.
type Collector struct {
	deps Deps

	metrics   *metrics
	cycle     atomic.Pointer[cycle] // under way
	slot      chan struct{}         // bound: 1; held by the collection
	promising chan struct{}         // bound: 1; held by the walk over what pins promise
	wake      chan struct{}         // bound: 1; asks for an eviction

	mu       sync.Mutex
	removals map[chan struct{}]struct{} // closed when over
	progress chan struct{}              // closed when something was removed or a collection ended
	done     Runs                       // collections
	short    bool                       // the latest could not remove what it had to
	waiting  int                        // writes that wait for space
	last     Report                     // of the latest that looked at everything
	ages     *histogram                 // of what it found evictable, nil when it removed all of it
	lastErr  error                      // why the latest could not make space
	notUntil time.Time                  // no eviction is tried before, it would be in vain
}

// New returns a Collector. deps.Account asks it for evictions from then on.
func New(deps Deps) *Collector {
	g := &Collector{
		deps: deps,
		slot: make(chan struct{}, 1), promising: make(chan struct{}, 1), wake: make(chan struct{}, 1), // bound: 1 each
		removals: map[chan struct{}]struct{}{}, progress: make(chan struct{}),
	}
	deps.Account.evictor = g
	g.metrics = newMetrics(deps.Metrics, g)
	return g
}

// Removing takes note of a removal that has yet to look at the pins. A pin that was set
// before is seen by it; one that is set later waits for its end.
func (g *Collector) Removing() (over func()) {
	done := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removals[done] = struct{}{}
	return func() {
		g.mu.Lock()
		delete(g.removals, done)
		g.mu.Unlock()
		close(done)
	}
}

// settle waits for the removals that are under way.
func (g *Collector) settle(ctx context.Context) error {
	g.mu.Lock()
	under := make([]chan struct{}, 0, len(g.removals))
	for done := range g.removals {
		under = append(under, done)
	}
	g.mu.Unlock()
	for _, done := range under {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// PinAdded takes note of a new recursive pin. When it returns nil, no removal is under
// way that did not see the pin.
func (g *Collector) PinAdded(ctx context.Context, root b3.Root) error {
	g.announce(root)
	return g.settle(ctx)
}

// announce tells the collection under way, if any, that root holds its tree.
func (g *Collector) announce(root b3.Root) {
	if c := g.cycle.Load(); c != nil {
		c.announce(root)
	}
}

// Arrived takes note of an object that was put and may be a directory below a pin.
func (g *Collector) Arrived(root b3.Root) {
	if c := g.cycle.Load(); c != nil && c.marks.Has(root) {
		c.announce(root)
	}
}

// Used takes note of a use: a collection under way leaves the object.
func (g *Collector) Used(root b3.Root) {
	if c := g.cycle.Load(); c != nil {
		c.young.Add(root)
	}
}

// moved wakes those who wait for space.
func (g *Collector) moved() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.progress)
	g.progress = make(chan struct{})
}

// Run looks at every object and removes those that nothing holds: with All, all
// of them; else those used least recently, down to the low-water mark. Pins,
// leases, holds, and what is put, opened or pinned meanwhile are safe. It takes
// its share of the time (Deps.Duty), blocks nobody, and ends early with ctx.
// One runs at a time, a second one waits. The report is valid with an error,
// too.
func (g *Collector) Run(ctx context.Context, opt Options) (Report, error) {
	if err := g.deps.Admission.Enter(); err != nil {
		return Report{}, err
	}
	g.deps.Admission.Leave() // a collection does not hold up the end of the store
	select {
	case g.slot <- struct{}{}:
	case <-ctx.Done():
		return Report{}, ctx.Err()
	case <-g.deps.Admission.Stopping():
		return Report{}, meta.ErrDraining
	}
	defer func() { <-g.slot }()
	return g.collect(ctx, opt)
}

// collect runs one collection. The slot is held.
func (g *Collector) collect(ctx context.Context, opt Options) (Report, error) {
	begun := time.Now()
	roots := g.deps.Backend.Totals().Objects.Load()
	roots += roots/4 + 1024 // may come while it runs
	c := &cycle{
		g: g, opt: opt, marks: bloom.New(roots), young: bloom.New(roots),
		pace: pacer{duty: g.deps.Duty, hurry: g.hurried, admission: g.deps.Admission},
	}
	if opt.Fast {
		c.pace.duty = 1
	}
	c.report.Classes = map[Class]meta.Count{}
	c.report.Before = g.Space()
	c.report.Open, _ = g.deps.Backend.Damages().Open()
	c.walk = walker{g: g, pause: c.pace.rest, visit: c.mark, damaged: c.damage}
	g.cycle.Store(c)
	err := c.run(ctx)
	g.cycle.Store(nil)
	c.report.Took = time.Since(begun)
	c.report.Nodes = int64(c.walk.read)
	if err == nil {
		err = c.report.Err()
	}
	g.metrics.cycle(c, err)
	g.end(c, err)
	if err != nil {
		err = fmt.Errorf("store: gc: %w", err)
	}
	return c.report, err
}

// hurried reports whether a write waits for space.
func (g *Collector) hurried() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0
}

// end notes how a collection ended.
func (g *Collector) end(c *cycle, err error) {
	g.mu.Lock()
	if !c.opt.Dry {
		g.done = Runs{Ended: g.done.Ended + 1, LastEnd: time.Now(), LastTook: c.report.Took, LastRemoved: c.report.Classes[Removed]}
		g.short = err != nil || c.report.short()
		g.lastErr = err
	}
	if c.complete {
		g.last = c.report
		if !c.opt.All || !c.opt.Dry {
			g.ages = c.ages
		}
	}
	g.mu.Unlock()
	g.moved()
}

// Runs are the garbage collections since the start, dry ones left out.
type Runs struct {
	Ended       int64         `json:"ended"`
	LastEnd     time.Time     `json:"last_end,omitzero"` // of the last one; zero: there was none
	LastTook    time.Duration `json:"last_took"`
	LastRemoved meta.Count    `json:"last_removed"`
}

// Runs returns the count of collections.
func (g *Collector) Runs() Runs {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}

// find returns the entry of a visible object, unless its removal is under way.
func (g *Collector) find(root b3.Root) (meta.Entry, bool, error) {
	if g.deps.Leases.Removing(root) {
		return meta.Entry{}, false, nil
	}
	return g.deps.Backend.Get(root)
}
