package upload

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/latch"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/admission"
	"allium/store/lease"
	"allium/store/meta"
	"allium/store/quota"
)

const (
	// maxWhole is how many uploads that are whole are remembered, and maxEnded
	// of how many others it is known that they were.
	maxWhole = 1024
	maxEnded = 1024
	// expireEvery is how often the janitor looks, and expirePause how long it
	// rests between two removals.
	expireEvery = 10 * time.Second
	expirePause = 50 * time.Millisecond
)

// state is an upload that is known. Whoever made it busy owns all but rec, which it
// alone changes, under the table's lock.
type state struct {
	rec    Record
	busy   bool // of the table
	ending bool // of the table: busy since the janitor removes it

	hashed    b3.Mark // how far the bytes are hashed; zero after a restart
	charge    *quota.Charge
	space     meta.Count // reserved
	unwritten int64      // bytes of space that are not on the disk yet
}

// ending is how an upload that is not whole ended, as the label of a metric.
type ending string

const (
	endedWhole     ending = "whole"
	endedExpired   ending = "expired"
	endedRemoved   ending = "removed"
	endedBadDigest ending = "bad_digest"
	endedDenied    ending = "denied"
	endedLost      ending = "lost"
)

// Backend keeps uploads.
type Backend interface {
	// Uploads returns what NoteUpload noted of uploads, when the store opens.
	Uploads() ([]Record, error)
	// OpenUpload opens the files of an upload, the data empty at offset 0, and
	// the outboard when nothing of it is needed: outboard is how many bytes
	// are. Data that is gone is fs.ErrNotExist.
	OpenUpload(rec Record, outboard int64) (*meta.Staging, error)
	// NoteUpload makes the bytes of st durable, when it is not nil, and then
	// notes rec, durably. Of one that is done the files go.
	NoteUpload(rec Record, st *meta.Staging) error
	// DropUpload removes what NoteUpload noted, and the files.
	DropUpload(id ID) error
}

// Space decides whether there is space for an upload.
type Space interface {
	// ReserveWhole reserves n, of which nothing is on the disk, and may wait for that.
	ReserveWhole(ctx context.Context, n meta.Count) error
	// TakeWhole reserves n whatever the bounds say.
	TakeWhole(n meta.Count, unwritten int64)
	// ReleaseWhole ends a reservation of which unwritten bytes are not on the disk.
	ReleaseWhole(n meta.Count, unwritten int64)
	// Wrote says that n more bytes of what was reserved are on the disk.
	Wrote(n int64)
}

// Deps are what a Table works with. Limits and Metrics may be nil.
type Deps struct {
	Backend   Backend
	Space     Space
	Quotas    *quota.Quotas
	Leases    *lease.Table
	Admission *admission.Control
	Gate      *limits.Gate // appends at once, among other puts
	Log       *slog.Logger
	Limits    *limits.Registry
	Metrics   prometheus.Registerer

	Most        int64         // uploads that are not whole
	TTL         time.Duration // after the last bytes
	HashWorkers int

	// MayExpire reports whether the machine's clock is right.
	MayExpire func() bool
	// Allowed says why an object must not be stored: bad_digest when it is not expect,
	// or denied. A zero expect takes any.
	Allowed func(root, expect b3.Root) error
	// Here reports whether an object is visible and not known to be damaged.
	Here func(root b3.Root) (bool, error)
	// CommitSmall and CommitLarge make an object visible whose bytes hash to root.
	// CommitLarge calls done once, when st's files are not needed any more.
	CommitSmall func(ctx context.Context, root b3.Root, p []byte, deferred bool) (isNew bool, err error)
	CommitLarge func(ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func()) (isNew bool, err error)
	// Outgrown is told of an object that is whole now.
	Outgrown func(ctx context.Context, root b3.Root)
	// Pin pins an object, not recursively, unless the label pins it already, and makes
	// what charge counts the pin's.
	Pin func(ctx context.Context, root b3.Root, label string, charge *quota.Charge) error
}

// Table holds the uploads, whole ones for a while. The backend has them too. Its
// methods are safe for concurrent use.
type Table struct {
	deps  Deps
	limit *limits.Usage
	ends  map[ending]*atomic.Int64 // of those above; never written

	mu    sync.Mutex
	m     map[ID]*state
	open  int64 // of m, those that are not whole, and those about to be in it
	ended ring

	writes latch.Latch // to the backend, which closes when they have ended
}

// NewTable returns a table that Load fills.
func NewTable(deps Deps) *Table {
	t := &Table{deps: deps, m: map[ID]*state{}, ends: map[ending]*atomic.Int64{}}
	for _, end := range []ending{endedWhole, endedExpired, endedRemoved, endedBadDigest, endedDenied, endedLost} {
		t.ends[end] = new(atomic.Int64)
	}
	t.limit = deps.Limits.NewUsage(limits.Spec{
		Name: "store.uploads", Path: "gateway /u → uploads that are not whole", Policy: "reject busy",
	}, deps.Most, func() int64 { n, _ := t.count(); return n })
	t.register(deps.Metrics)
	return t
}

// Close waits for the writes to the backend that are under way; none begins any more.
func (t *Table) Close() { t.writes.Wait() }

func (t *Table) report(op string, err error) {
	if err != nil {
		t.deps.Log.Warn("the store could not clean up; the next start will", "op", op, "err", err)
	}
}

// reserve makes room for one more upload, or returns busy.
func (t *Table) reserve() error {
	t.mu.Lock()
	full := t.open >= t.deps.Most
	if !full {
		t.open++
	}
	t.mu.Unlock()
	if !full {
		t.limit.Grown()
		return nil
	}
	limit := t.limit.Refuse()
	return &status.Error{Outcome: status.Busy, Limit: &limit, Message: fmt.Sprintf(
		"%d uploads are not whole yet (store.uploads); end or remove one, or send the object in one piece", t.deps.Most)}
}

func (t *Table) unreserve() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
}

// add enters u, for which reserve made room.
func (t *Table) add(u *state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[u.rec.ID] = u
}

// get returns the state of an upload.
func (t *Table) get(id string) (Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, err := t.find(id)
	if err != nil {
		return Record{}, err
	}
	return u.rec, nil
}

// find looks an upload up. mu is held.
func (t *Table) find(id string) (*state, error) {
	key, ok := ParseID(id)
	u := t.m[key]
	switch {
	case !ok:
	case u != nil && !u.ending && (u.busy || u.rec.Expires > meta.SecondOf(time.Now()) || !t.deps.MayExpire()):
		return u, nil
	case u != nil, t.ended.has(key):
		return nil, status.Errorf(status.Gone, "store: the upload expired or was removed; begin another")
	}
	return nil, status.Errorf(status.NotFound, "store: there is no such upload; begin one")
}

// begin makes the caller the one that may change an upload, until end.
func (t *Table) begin(id string) (*state, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, err := t.find(id)
	if err != nil {
		return nil, err
	}
	if u.busy {
		return nil, status.Errorf(status.Conflict, "store: an append to this upload runs; wait for it, or cut it")
	}
	u.busy = true
	return u, nil
}

func (t *Table) end(u *state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.busy, u.ending = false, false
}

// set notes what the backend has of u, which the caller holds.
func (t *Table) set(u *state, rec Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rec.Done && !u.rec.Done {
		t.open--
		t.ends[endedWhole].Add(1)
	}
	u.rec = rec
}

// drop forgets u, which the caller holds.
func (t *Table) drop(u *state, why ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, u.rec.ID)
	if !u.rec.Done {
		t.open--
		t.ends[why].Add(1)
	}
	t.ended.add(u.rec.ID)
}

// count is how many uploads are not whole, and how many bytes are here of them.
func (t *Table) count() (open, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.m {
		if !u.rec.Done {
			bytes += u.rec.Offset
		}
	}
	return t.open, bytes
}

// Stats are counters. What became of uploads counts from the start of the process.
type Stats struct {
	Open    int64 `json:"open"`    // not whole
	Bytes   int64 `json:"bytes"`   // of those, that are here
	Whole   int64 `json:"whole"`   // became objects
	Expired int64 `json:"expired"` // removed since nothing came for long
	Dropped int64 `json:"dropped"` // removed otherwise: on demand, of other bytes than expected, or since the disk lost them
}

// Stats returns the counters.
func (t *Table) Stats() Stats {
	open, bytes := t.count()
	n := func(end ending) int64 { return t.ends[end].Load() }
	return Stats{
		Open: open, Bytes: bytes, Whole: n(endedWhole), Expired: n(endedExpired),
		Dropped: n(endedRemoved) + n(endedBadDigest) + n(endedDenied) + n(endedLost),
	}
}

// overdue makes the caller the one to remove an upload that expired, or the
// whole one with the least time left when there are too many; nil for none.
func (t *Table) overdue(now meta.Second) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	var next *state
	whole := 0
	for _, u := range t.m {
		if u.rec.Done {
			whole++
		}
		switch {
		case u.busy:
		case u.rec.Expires <= now:
			u.busy, u.ending = true, true
			return u
		case u.rec.Done && (next == nil || u.rec.Expires < next.rec.Expires):
			next = u
		}
	}
	if whole <= maxWhole || next == nil {
		return nil
	}
	next.busy, next.ending = true, true
	return next
}
