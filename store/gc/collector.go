package gc

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/store/admission"
	"allium/store/bloom"
	"allium/store/disk/damage"
	"allium/store/lease"
	"allium/store/meta"
)

// Partials are the partly stored objects.
type Partials interface {
	// Find returns the partial object root.
	Find(root b3.Root) (rec meta.Partial, ok bool, err error)
	// All yields the partial objects in order of address.
	All(ctx context.Context) iter.Seq2[meta.Partial, error]
	// Remove removes the partial object root. It returns conflict while it is in use, and
	// not_found when there is none.
	Remove(ctx context.Context, root b3.Root) error
	// Running reports whether root is being downloaded.
	Running(root b3.Root) bool
	// Bytes returns how many bytes of partial objects are stored.
	Bytes() int64
}

// Uses knows the last uses that the backend does not have yet, and the holds.
type Uses interface {
	// Flush writes the last uses to the backend.
	Flush(ctx context.Context) error
	// UsedAt returns the last use of root that the backend may lack, 0 for none.
	UsedAt(root b3.Root) meta.Second
	// Holding reports whether any hold is in force.
	Holding() bool
	// Held reports whether a hold protects root, which was last used at used.
	Held(root b3.Root, used meta.Second) bool
}

// Backend has the objects that a Collector looks up and removes, and the pins that protect them.
type Backend interface {
	// Get, UsedAt, RemoveAll, Pins and Totals are those of [meta.Objects], [meta.Pins] and [meta.State].
	Get(root b3.Root) (e meta.Entry, ok bool, err error)
	UsedAt(e meta.Entry) (meta.Second, error)
	RemoveAll(ctx context.Context, es []meta.Entry) error
	Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)
	Totals() *meta.Totals
}

// Deps holds the dependencies of a Collector. Metrics may be nil.
type Deps struct {
	env.Env

	Backend   Backend
	Damages   func() *damage.List
	Partials  Partials
	Uses      Uses
	Leases    *lease.Table
	Admission *admission.Control
	Account   *Account
	Clock     *meta.Clock

	// Entries and Pins yield all objects and all pins, in order.
	Entries func(ctx context.Context) iter.Seq2[meta.Entry, error]
	Pins    func(ctx context.Context) iter.Seq2[meta.Pin, error]

	// Node reads and verifies the directory root. It returns nil when root is absent or is no
	// directory, and an error that wraps meta.ErrDamagedDirectory when it is damaged. It does
	// not count as a use.
	Node func(ctx context.Context, root b3.Root) (*manifest.Node, error)
}

// Collector runs garbage collections and evictions. One collection runs at a time. Its
// methods are safe for concurrent use.
type Collector struct {
	trees
	removals
	results
	metrics    *metrics
	collecting chan struct{} // a buffer of one; full while a collection runs
	wake       chan struct{} // a buffer of one; makes Serve look now
}

// trees reads the trees of directories below pins.
type trees struct {
	deps        Deps
	findingLost chan struct{} // a buffer of one; full while FindLost runs
}

// removals are those in progress, of collections and of the store.
type removals struct {
	mu      sync.Mutex                 // lock: leaf
	running map[chan struct{}]struct{} // each channel closes at the end
}

// New returns a Collector and makes it the evictor of deps.Account. Serve runs evictions.
func New(deps Deps) *Collector {
	deps.Env.SetDefaults()
	g := &Collector{
		trees: trees{deps, make(chan struct{}, 1)}, removals: removals{running: map[chan struct{}]struct{}{}},
		results:    results{progress: make(chan struct{})},
		collecting: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
	deps.Account.evictor = g
	g.metrics = newMetrics(deps.Metrics, g)
	return g
}

// BeginRemoval registers a removal before it reads the pins. A pin that was set earlier is
// seen by the removal; PinAdded of a later one waits until end is called.
func (r *removals) BeginRemoval() (end func()) {
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[done] = struct{}{}
	return func() {
		r.mu.Lock()
		delete(r.running, done)
		r.mu.Unlock()
		close(done)
	}
}

// waitRemovals waits for the removals in progress.
func (r *removals) waitRemovals(ctx context.Context) error {
	r.mu.Lock()
	under := make([]chan struct{}, 0, len(r.running))
	for done := range r.running {
		under = append(under, done)
	}
	r.mu.Unlock()
	for _, done := range under {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// PinAdded tells the collection in progress of a new recursive pin, and waits for the
// removals that may not have seen it.
func (g *Collector) PinAdded(ctx context.Context, root b3.Root) error {
	g.addTree(root)
	return g.waitRemovals(ctx)
}

// addTree tells the collection in progress, if any, to mark the tree of root.
func (g *Collector) addTree(root b3.Root) {
	if c := g.cycle.Load(); c != nil {
		c.addTree(root)
	}
}

// ObjectAdded tells the collection in progress of a new object, which may be a directory
// below a pin.
func (g *Collector) ObjectAdded(root b3.Root) {
	if c := g.cycle.Load(); c != nil && c.marks.Has(root) {
		c.addTree(root)
	}
}

// NoteUse tells the collection in progress of a use: it keeps the object.
func (g *Collector) NoteUse(root b3.Root) {
	if c := g.cycle.Load(); c != nil {
		c.recent.Add(root)
	}
}

// Run looks at every object and removes those that nothing protects: with Options.All all
// of them, otherwise the least recently used down to the low-water mark. It never removes
// what is pinned, leased, held, or used meanwhile. It works for the share Deps.Duty of the
// time, holds no locks meanwhile, and ends early with ctx or the store. A second call waits
// for the first. The report is valid with an error too.
func (g *Collector) Run(ctx context.Context, opt Options) (Report, error) {
	if err := begin(ctx, g.deps.Admission, g.collecting); err != nil {
		return Report{}, err
	}
	defer func() { <-g.collecting }()
	return g.collect(ctx, opt)
}

// begin fills running, a buffer of one, and waits as long as another run has it. The caller empties it after its run.
// The store may close before that.
func begin(ctx context.Context, store *admission.Control, running chan<- struct{}) error {
	if err := store.Enter(); err != nil {
		return err
	}
	store.Leave()
	select {
	case running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-store.Stopping():
		return meta.ErrDraining
	}
}

// collect runs one collection. The caller has filled g.collecting.
func (g *Collector) collect(ctx context.Context, opt Options) (Report, error) {
	begun := time.Now()
	roots := g.deps.Backend.Totals().Objects.Load()
	roots += roots/4 + 1024 // for objects that are added while it runs
	c := &cycle{
		g: g, opt: opt, marks: bloom.New(roots), recent: bloom.New(roots), duty: g.newDuty(opt.Fast, g.hasWaiters),
	}
	c.report = Report{Classes: map[Class]meta.Count{}, Before: g.Space()}
	c.report.Open, _ = g.deps.Damages().Open()
	c.walk = walker{trees: &g.trees, pause: c.duty.rest, visit: c.mark, damaged: c.damagedNode}
	g.cycle.Store(c)
	err := c.run(ctx)
	c.report.Took = time.Since(begun)
	c.report.Nodes = int64(c.walk.nodesRead)
	if err == nil {
		err = c.report.Err()
	}
	g.metrics.count(c, err)
	g.finish(c, err)
	if err != nil {
		err = fmt.Errorf("store: gc: %w", err)
	}
	return c.report, err
}
