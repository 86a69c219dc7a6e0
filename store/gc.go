package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// GCOptions say what a collection does.
type GCOptions struct {
	All  bool // remove everything that nothing holds; else only what the low-water mark asks for
	Dry  bool // remove nothing, say what would be
	Fast bool // take no rests

	// Progress is told how far it is, often; nil for nobody. Removal is told
	// each object that was removed, or would be, and may end the collection by
	// returning false. Both are called by the collecting goroutine.
	Progress func(GCReport)
	Removal  func(GCObject) bool
}

// Class is why a collection keeps an object, or that it does not.
type Class string

// The classes, in the order they are looked at.
const (
	GCPinned  Class = "pinned"  // by a pin of its own or one above it
	GCLeased  Class = "leased"  // being read, put or downloaded
	GCRecent  Class = "recent"  // used since the collection began
	GCHeld    Class = "held"    // used since a Hold began: an add or a fetch has no pin yet
	GCCache   Class = "cache"   // nothing holds it, and its space is not needed
	GCRemoved Class = "removed" // nothing held it
)

// GCObject is one object that a collection removes.
type GCObject struct {
	Root    b3.Root
	Size    int64     // bytes
	Used    time.Time // last, to the second
	Partial bool      // a download that was left half done; Size is what is here of it
}

// GCDamage is a directory below a recursive pin that cannot be read, or a pinned
// object that is lost: what it names is unknown, so nothing is removed.
type GCDamage struct {
	Pin    meta.Pin
	Node   b3.Root
	Path   string // from the pin to the node, of names
	Absent bool   // Node is the pinned object itself, and it is not here
}

// maxDamages bounds what a report lists.
const maxDamages = 16

// GCReport is what a collection did, or would do.
type GCReport struct {
	Classes map[Class]meta.Count // GCRemoved: in a dry run what would be
	Seen    meta.Count           // what was looked at
	Before  Space                // as it began
	Need    meta.Count           // to be removed for the low-water mark; 0 when below, and of All
	Nodes   int64                // directories read below pins
	Damaged []GCDamage           // why nothing was removed; at most 16
	Open    int                  // open damage of the store (Store.Damage), another reason why nothing was removed
	Took    time.Duration
}

// String says which directory it is and what would help.
func (d GCDamage) String() string {
	where := d.Pin.Root.String()
	if d.Path != "" {
		where += "/" + d.Path
	}
	if d.Absent {
		return fmt.Sprintf("%s is pinned (%s) and lost, so what it keeps is unknown; fetch it again or remove the pin", d.Node, describe(d.Pin))
	}
	return fmt.Sprintf("the directory %s (%s, %s) is damaged, so what it keeps is unknown; fetch it again or remove the pin", d.Node, where, describe(d.Pin))
}

// err is why it cannot be told whether root is held.
func (d GCDamage) err(root b3.Root) error {
	return status.Errorf(status.Conflict, "store: whether %s is kept cannot be told: %s", root, d)
}

// Err is conflict when damage kept the collection from removing anything.
func (r GCReport) Err() error {
	if !r.Blocked() {
		return nil
	}
	return status.Errorf(status.Conflict, "nothing was removed: %s", r.Reason())
}

// Blocked reports whether damage keeps the collection from removing anything.
func (r GCReport) Blocked() bool { return r.Open > 0 || len(r.Damaged) > 0 }

// Reason says which damage keeps the collection from removing anything, and
// what to do; "" where none does.
func (r GCReport) Reason() string {
	switch {
	case r.Open > 0:
		return blockedBy(r.Open)
	case len(r.Damaged) > 0:
		return r.Damaged[0].String()
	}
	return ""
}

// collector is what collections share. One runs at a time.
type collector struct {
	cycle atomic.Pointer[cycle] // under way
	slot  chan struct{}         // bound: 1; held by the collection
	wake  chan struct{}         // bound: 1; asks for an eviction

	mu       sync.Mutex
	removals map[chan struct{}]struct{} // closed when over
	progress chan struct{}              // closed when something was removed or a collection ended
	done     Runs                       // collections
	short    bool                       // the latest could not remove what it had to
	waiting  int                        // writes that wait for room
	last     GCReport                   // of the latest that looked at everything
	ages     *histogram                 // of what it found evictable, nil when it removed all of it
	lastErr  error                      // why the latest could not make room
	notUntil time.Time                  // no eviction is tried before, it would be in vain
}

func newCollector() *collector {
	return &collector{
		slot: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		removals: map[chan struct{}]struct{}{}, progress: make(chan struct{}),
	}
}

// removing notes a removal that has yet to look at the pins. A pin that was set
// before is seen by it; one that is set later waits for its end.
func (g *collector) removing() (over func()) {
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
func (g *collector) settle(ctx context.Context) error {
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

// announce tells the collection under way, if any, that root holds its tree.
func (g *collector) announce(root b3.Root) {
	if c := g.cycle.Load(); c != nil {
		c.announce(root)
	}
}

// arrived tells it that root was put, which may be a directory that a pin holds.
func (g *collector) arrived(root b3.Root) {
	if c := g.cycle.Load(); c != nil && c.marks.has(root) {
		c.announce(root)
	}
}

// moved wakes those who wait for room.
func (g *collector) moved() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.progress)
	g.progress = make(chan struct{})
}

// GC looks at every object and removes those that nothing holds: with All, all
// of them; else those used least recently, down to the low-water mark. Pins,
// leases, holds, and what is put, opened or pinned meanwhile are safe. It takes
// its share of the time (Config.GCDuty), blocks nobody, and ends early with ctx.
// One runs at a time, a second one waits. The report is valid with an error,
// too.
func (s *Store) GC(ctx context.Context, opt GCOptions) (GCReport, error) {
	if err := s.enter(); err != nil {
		return GCReport{}, err
	}
	s.leave() // a collection does not hold up the end of the store
	select {
	case s.gc.slot <- struct{}{}:
	case <-ctx.Done():
		return GCReport{}, ctx.Err()
	case <-s.admission.Stopping():
		return GCReport{}, meta.ErrDraining
	}
	defer func() { <-s.gc.slot }()
	return s.collect(ctx, opt)
}

// collect runs one collection. The slot is held.
func (s *Store) collect(ctx context.Context, opt GCOptions) (GCReport, error) {
	begun := time.Now()
	roots := s.backend.Totals().Objects.Load()
	roots += roots/4 + 1024 // may come while it runs
	c := &cycle{
		s: s, opt: opt, marks: newFilter(roots), young: newFilter(roots),
		pace: pacer{duty: s.cfg.GCDuty, hurry: s.gc.hurried, admission: s.admission},
	}
	if opt.Fast {
		c.pace.duty = 1
	}
	c.report.Classes = map[Class]meta.Count{}
	c.report.Before = s.Space()
	c.report.Open, _ = s.OpenDamage()
	c.walk = walker{s: s, pause: c.pace.rest, visit: c.mark, damaged: c.damage}
	s.gc.cycle.Store(c)
	err := c.run(ctx)
	s.gc.cycle.Store(nil)
	c.report.Took = time.Since(begun)
	c.report.Nodes = int64(c.walk.read)
	if err == nil {
		err = c.report.Err()
	}
	s.metrics.gc.cycle(c, err)
	s.gc.end(c, err)
	if err != nil {
		err = fmt.Errorf("store: gc: %w", err)
	}
	return c.report, err
}

// short reports whether less was removed than had to be.
func (r *GCReport) short() bool {
	n := r.Classes[GCRemoved]
	return n.Objects < r.Need.Objects || n.Bytes < r.Need.Bytes
}

// hurried reports whether a write waits for room.
func (g *collector) hurried() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting > 0
}

// end notes how a collection ended.
func (g *collector) end(c *cycle, err error) {
	g.mu.Lock()
	if !c.opt.Dry {
		g.done = Runs{Ended: g.done.Ended + 1, LastEnd: time.Now(), LastTook: c.report.Took, LastRemoved: c.report.Classes[GCRemoved]}
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

func (g *collector) runs() Runs {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}
