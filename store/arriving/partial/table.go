package partial

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/lease"
	"allium/store/meta"
)

// These constants decide when what arrived is saved. A crash costs at most maxUnsaved
// bytes of a download, at any rate. When no more than that is left of it, with what is not
// saved, only checkpointAge counts.
const (
	checkpointBytes = 32 << 20 // half of maxUnsaved, so that writes seldom wait for a checkpoint
	maxUnsaved      = 64 << 20 // most bytes of one object that are not saved; further writes wait
	checkpointAge   = 5 * time.Second
	checkpointRetry = 100 * time.Millisecond // shortest time between two checkpoints of one object
)

// Space reserves space for what arrives.
type Space interface {
	// Reserve reserves n, and may wait for space.
	Reserve(ctx context.Context, n meta.Count) error
	// ReserveUntil is Reserve for a caller who stops waiting when canceled is closed.
	ReserveUntil(canceled <-chan struct{}, n meta.Count) error
	// Take reserves n without checking the bounds.
	Take(n meta.Count)
	// Release ends a reservation.
	Release(n meta.Count)
}

// Deps holds the dependencies of a Table.
type Deps struct {
	env.Env

	Backend   meta.Downloads
	Space     Space
	Leases    *lease.Table
	Admission *admission.Control
	Clock     *meta.Clock
	Gate      *limits.Gate  // bounds the ingests in progress
	ToBucket  bool          // a complete object goes to a bucket, which may be unreachable
	Filter    policy.Filter // of objects that are downloaded

	// Whole reports whether the whole object is stored.
	Whole func(root b3.Root) (bool, error)
	// CommitSmall and CommitLarge make an object visible whose bytes are proved. CommitLarge
	// calls done once, when the files of st are not needed any more.
	CommitSmall func(ctx context.Context, root b3.Root, p []byte, deferred bool) (isNew bool, err error)
	CommitLarge func(
		ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func(),
	) (isNew bool, err error)
	// Damaged is called when a read of the whole object root failed with err. It marks the
	// object if its bytes are wrong, and returns the error for the reader.
	Damaged func(root b3.Root, err error) error
	// CountDamage counts a damaged group.
	CountDamage func()
}

// Table holds the partial objects in use, and the counters of all. Those not in use are
// only in the backend, with their files closed. Its methods are safe for concurrent use.
// Load fills it, Serve runs checkpoints, Close saves everything.
type Table struct {
	deps Deps

	objects, bytes atomic.Int64 // of all large partial objects, in use or not
	waited         atomic.Int64 // writes that waited for a checkpoint

	wakeServe chan struct{} // a buffer of one
	writes    latch.Latch   // writes to the backend, which closes when they have ended

	mu      sync.Mutex // lock: metadata
	inUse   map[b3.Root]*object
	ingests map[b3.Root]struct{} // in progress, except those that were begun apart
	apart   int                  // ingests that were begun apart
}

// NewTable returns an empty table.
func NewTable(deps Deps) *Table {
	deps.Env.SetDefaults()
	return &Table{
		deps: deps, inUse: map[b3.Root]*object{}, ingests: map[b3.Root]struct{}{},
		wakeServe: make(chan struct{}, 1), // one pending signal is enough
	}
}

// Stats are the counters of partial objects.
type Stats struct {
	Objects int64 // partly stored large objects, in use or not
	Bytes   int64 // stored bytes of them
	Waits   int64 // writes that waited for a checkpoint
	Ingests int   // downloads in progress
}

// Stats returns the counters.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{
		Objects: t.objects.Load(), Bytes: t.bytes.Load(), Waits: t.waited.Load(), Ingests: len(t.ingests) + t.apart,
	}
}

// Bytes returns how many bytes of partial objects are stored.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Load counts what the backend has. It is called once, after the backend opened.
func (t *Table) Load() error {
	page := make([]meta.Partial, 0, meta.PageSize)
	var from b3.Root
	for more := true; more; {
		found, err := t.deps.Backend.Partials(from, page)
		if err != nil {
			return err
		}
		for _, rec := range found {
			t.objects.Add(1)
			t.bytes.Add(rec.Stored)
		}
		if more = len(found) == cap(page); more {
			from, more = meta.NextRoot(found[len(found)-1].Root)
		}
	}
	return nil
}

// discard deletes the files of a partial object.
func (t *Table) discard(st *meta.Staging) {
	if err := t.deps.Backend.Discard(st); err != nil {
		t.deps.Log.Warn("cannot delete a download; the next start will", "err", err)
	}
}

// acquire returns the partial object root with one more user: the one in use, or what the
// backend has, or, for a size ≥ 0, a new one of that claimed size. The caller leases root
// and was admitted.
func (t *Table) acquire(ctx context.Context, root b3.Root, size int64) (*object, error) {
	if err := t.deps.Leases.Settle(ctx, root); err != nil {
		return nil, err
	}
	p, err := t.settled(ctx.Done(), root, size)
	if p == nil && err == nil {
		err = ctx.Err()
	}
	return p, err
}

// settled is acquire of an object that is not being removed. It returns nil, nil once canceled is
// closed.
func (t *Table) settled(canceled <-chan struct{}, root b3.Root, size int64) (*object, error) {
	for {
		t.mu.Lock()
		p := t.inUse[root]
		if p == nil {
			p = newObject(t, root)
			t.inUse[root] = p
			t.mu.Unlock()
			return p, t.load(p, size)
		}
		t.mu.Unlock()
		select {
		case <-p.ready:
			if p.addUser() {
				return p, nil
			}
			select {
			case <-p.removed:
			case <-canceled:
				return nil, nil
			}
		case <-canceled:
			return nil, nil
		}
	}
}

// load loads p, which is in the table for its first user.
func (t *Table) load(p *object, size int64) error {
	err := p.load(size)
	if err != nil {
		p.mu.Lock()
		p.users, p.ended = 0, true
		p.mu.Unlock()
		t.remove(p)
	}
	close(p.ready)
	return err
}

// remove drops p from the table. It is idempotent.
func (t *Table) remove(p *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inUse[p.root] == p {
		delete(t.inUse, p.root)
		close(p.removed)
	}
}

// objectsInUse returns the partial objects in use.
func (t *Table) objectsInUse() []*object {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*object, 0, len(t.inUse))
	for _, p := range t.inUse {
		all = append(all, p)
	}
	return all
}

// join returns the partial object root with one more user if it is in use, else nil.
func (t *Table) join(root b3.Root) *object {
	t.mu.Lock()
	p := t.inUse[root]
	t.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.ready:
		if p.addUser() {
			return p
		}
	default: // being loaded
	}
	return nil
}

// wake makes Serve look which checkpoints are due.
func (t *Table) wake() {
	select {
	case t.wakeServe <- struct{}{}:
	default: // a signal is pending
	}
}

// Serve makes the checkpoints of all partial objects until ctx is done.
func (t *Table) Serve(ctx context.Context) {
	timer := time.NewTimer(checkpointAge)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wakeServe:
		case <-timer.C:
		}
		if wait, ok := t.saveDue(time.Now()); ok {
			timer.Reset(wait)
		}
	}
}

// saveDue makes the checkpoints that are due and returns when the next one is. ok is false
// when there is nothing to save.
func (t *Table) saveDue(now time.Time) (wait time.Duration, ok bool) {
	wait = checkpointAge
	var due []*object
	for _, p := range t.objectsInUse() {
		d, waits := p.nextCheckpoint(now)
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

// Close saves everything and refuses further writes to the backend, which is about to
// close.
func (t *Table) Close() {
	t.save(t.objectsInUse())
	t.writes.CloseAndWait()
}

// save makes a checkpoint of each object, four at a time, so that their syncs share the
// disk's journal.
func (t *Table) save(each []*object) {
	var g errgroup.Group
	g.SetLimit(4)
	for _, p := range each {
		if p := t.join(p.root); p != nil {
			g.Go(func() error {
				p.checkpoint()
				p.release()
				return nil
			})
		}
	}
	_ = g.Wait() // checkpoint logs errors
}
