package partial

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/lease"
	"allium/store/meta"
)

// When what arrived is noted. A crash costs at most checkpointMost of a
// download, at any rate.
const (
	checkpointBytes = 32 << 20 // so that writers seldom wait while one is written
	checkpointMost  = 64 << 20 // of one object that are not noted: a write beyond that waits
	checkpointAge   = 5 * time.Second
	checkpointRetry = 100 * time.Millisecond // between two of one object, however fast it comes
)

// Backend keeps downloads that are not whole.
type Backend interface {
	// Stage makes room for a large object.
	Stage(root b3.Root) (*meta.Staging, error)
	// Discard removes what Stage made, and what Save noted of it.
	Discard(st *meta.Staging) error
	// Resume opens what the last save of root noted; st is nil when there is
	// nothing, and rec and pages are what was noted.
	Resume(root b3.Root) (st *meta.Staging, rec Record, pages []Page, err error)
	// Save makes what was written to st durable, then notes rec and pages, those
	// of the bitmap of groups that changed, and sets st.Kept.
	Save(st *meta.Staging, rec Record, pages []Page) error
	// Partial returns what Save noted of root.
	Partial(root b3.Root) (rec Record, ok bool, err error)
	// Partials appends what Save noted from root on, ascending, to page up to
	// its capacity. Fewer means the end.
	Partials(root b3.Root, page []Record) ([]Record, error)
	// DropPartial removes what Save noted of root, and its files. Nobody uses
	// them.
	DropPartial(root b3.Root) error
}

// Space decides whether there is space for what arrives.
type Space interface {
	// Reserve reserves n, and may wait for that.
	Reserve(ctx context.Context, n meta.Count) error
	// ReserveUntil is Reserve for a caller who stops waiting when gone is closed.
	ReserveUntil(gone <-chan struct{}, n meta.Count) error
	// Take reserves n whatever the bounds say.
	Take(n meta.Count)
	// Release ends a reservation.
	Release(n meta.Count)
}

// Deps are what a Table works with.
type Deps struct {
	Backend   Backend
	Space     Space
	Leases    *lease.Table
	Admission *admission.Control
	Clock     *meta.Clock
	Log       *slog.Logger
	Gate      *limits.Gate // ingests at once
	Remote    bool         // a whole object goes to a bucket, which may be away

	// Denied says why an object must not be stored.
	Denied func(root b3.Root) error
	// CommitSmall and CommitLarge make an object visible whose bytes are proved.
	// CommitLarge calls done once, when st's files are not needed any more.
	CommitSmall func(ctx context.Context, root b3.Root, p []byte, deferred bool) (isNew bool, err error)
	CommitLarge func(ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func()) (isNew bool, err error)
	// Damaged marks the whole object root, if a read failed with err for its bytes
	// are wrong, and returns the error for the reader.
	Damaged func(root b3.Root, err error) error
	// CountDamage counts a group that is wrong.
	CountDamage func()
}

// Table holds the partial objects that somebody uses, and the counters of all. What
// nobody uses is in the backend alone, its files closed. Its methods are safe for
// concurrent use.
type Table struct {
	deps Deps

	objects, bytes atomic.Int64 // of large objects that are not whole, in use or not
	waits          atomic.Int64 // writes that waited for a checkpoint

	kick   chan struct{} // bound: 1; wakes the checkpoint clock
	writes latch.Latch   // to the backend, which closes when they have ended

	mu      sync.Mutex
	m       map[b3.Root]*object
	running map[b3.Root]struct{} // ingests
}

// NewTable returns a table that Load fills.
func NewTable(deps Deps) *Table {
	return &Table{deps: deps, m: map[b3.Root]*object{}, running: map[b3.Root]struct{}{}, kick: make(chan struct{}, 1)} // bound: 1, one look
}

// Stats are counters of partial objects.
type Stats struct {
	Objects int64 // of which a part is here, in use or not
	Bytes   int64 // that are here
	Waits   int64 // writes that waited until what came before was noted
	Ingests int   // downloads being written
}

// Stats returns the counters.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Objects: t.objects.Load(), Bytes: t.bytes.Load(), Waits: t.waits.Load(), Ingests: len(t.running)}
}

// Bytes is how many bytes are here of objects that are not whole.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Load takes the counters from the backend, which was just opened.
func (t *Table) Load() error {
	page := make([]Record, 0, meta.PageSize)
	var from b3.Root
	for more := true; more; {
		found, err := t.deps.Backend.Partials(from, page)
		if err != nil {
			return err
		}
		for _, rec := range found {
			t.objects.Add(1)
			t.bytes.Add(rec.Held)
		}
		if more = len(found) == cap(page); more {
			from, more = meta.NextRoot(found[len(found)-1].Root)
		}
	}
	return nil
}

// discard removes what arrived.
func (t *Table) discard(st *meta.Staging) {
	if err := t.deps.Backend.Discard(st); err != nil {
		t.deps.Log.Warn("the store could not clean up; the next start will", "op", "discard", "err", err)
	}
}

// use returns the partial of root with one more user: the one that is in use,
// or what the backend has, or, for a size ≥ 0, a new one of that claimed size.
// The caller leases root and was admitted.
func (t *Table) use(ctx context.Context, root b3.Root, size int64) (*object, error) {
	if err := t.deps.Leases.Settle(ctx, root); err != nil {
		return nil, err
	}
	for {
		t.mu.Lock()
		p := t.m[root]
		if p == nil {
			p = newObject(t, root)
			t.m[root] = p
			t.mu.Unlock()
			return p, t.load(p, size)
		}
		t.mu.Unlock()
		select {
		case <-p.ready:
			if p.join() {
				return p, nil
			}
			select {
			case <-p.gone:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// load fills p, which the table holds for its first user.
func (t *Table) load(p *object, size int64) error {
	err := p.load(size)
	if err != nil {
		p.mu.Lock()
		p.users, p.over = 0, true
		p.mu.Unlock()
		t.remove(p)
	}
	close(p.ready)
	return err
}

// remove takes p out of the table. It is idempotent.
func (t *Table) remove(p *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[p.root] == p {
		delete(t.m, p.root)
		close(p.gone)
	}
}

// all are the partials in use now.
func (t *Table) all() []*object {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*object, 0, len(t.m))
	for _, p := range t.m {
		all = append(all, p)
	}
	return all
}

// hold returns the partial of root with one more user when it is in use, nil
// else.
func (t *Table) hold(root b3.Root) *object {
	t.mu.Lock()
	p := t.m[root]
	t.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.ready:
		if p.join() {
			return p
		}
	default: // being loaded
	}
	return nil
}

// alert wakes the checkpoint clock.
func (t *Table) alert() {
	select {
	case t.kick <- struct{}{}:
	default: // it is about to look
	}
}

// Serve is the checkpoint clock of all partials, until ctx is done.
func (t *Table) Serve(ctx context.Context) {
	timer := time.NewTimer(checkpointAge)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.kick:
		case <-timer.C:
		}
		if wait, ok := t.saveDue(time.Now()); ok {
			timer.Reset(wait)
		}
	}
}

// saveDue notes what is due, and returns when the next is; ok is false when
// nothing is under way.
func (t *Table) saveDue(now time.Time) (wait time.Duration, ok bool) {
	wait = checkpointAge
	var due []*object
	for _, p := range t.all() {
		d, waits := p.due(now)
		switch {
		case !waits:
			continue
		case d == 0:
			due = append(due, p)
		}
		ok = true
		wait = min(wait, max(d, checkpointRetry))
	}
	t.save(due)
	return wait, ok
}

// Close notes everything and admits no more: the backend is about to close.
func (t *Table) Close() {
	t.save(t.all())
	t.writes.Wait()
}

// save notes what came of each, a few at a time, so that their syncs share the
// disk's journal.
func (t *Table) save(each []*object) {
	var g errgroup.Group
	g.SetLimit(4)
	for _, p := range each {
		if held := t.hold(p.root); held != nil {
			g.Go(func() error {
				held.checkpoint()
				held.unuse()
				return nil
			})
		}
	}
	_ = g.Wait() // checkpoint reports
}
