package resumable

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/env"
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
	// maxRemembered bounds the completed uploads whose address is remembered, and maxEnded
	// the other ended uploads that are remembered as gone.
	maxRemembered = 1024
	maxEnded      = 1024
	// expireEvery is the interval at which Serve looks for expired uploads, and expirePause its rest
	// after each removal.
	expireEvery = 10 * time.Second
	expirePause = 50 * time.Millisecond
)

// state is a known upload. The goroutine that has locked it (busy) may use all its fields. It alone changes rec, under
// the table's lock.
type state struct {
	rec      meta.Upload
	busy     bool // locked; guarded by the table's lock
	expiring bool // locked by Serve, which removes it; guarded by the table's lock

	hashed    b3.HasherState // how far the bytes are hashed; zero after a restart
	charge    *quota.Charge
	space     meta.Count // reserved
	unwritten int64      // bytes of space that are not on the disk yet
}

// outcome is the way in which an incomplete upload ended. It is a label of a metric.
type outcome string

const (
	endedWhole     outcome = "whole"
	endedExpired   outcome = "expired"
	endedRemoved   outcome = "removed"
	endedBadDigest outcome = "bad_digest"
	endedDenied    outcome = "denied"
	endedLost      outcome = "lost"
	endedEvicted   outcome = "evicted" // another upload needed its place
)

// Space reserves space for uploads.
type Space interface {
	// ReserveUnwritten reserves space for n that is not on the disk yet. It may wait for space.
	ReserveUnwritten(ctx context.Context, n meta.Count) error
	// TakeUnwritten reserves n without checking the bounds.
	TakeUnwritten(n meta.Count, unwritten int64)
	// ReleaseUnwritten ends a reservation. unwritten of its bytes are not on the disk.
	ReleaseUnwritten(n meta.Count, unwritten int64)
	// NoteWritten notes that n more of the reserved bytes are on the disk.
	NoteWritten(n int64)
}

// Deps holds the dependencies of a Table. Limits and Metrics may be nil.
type Deps struct {
	env.Env

	Backend   meta.Uploads
	Space     Space
	Quotas    *quota.Quotas
	Leases    *lease.Table
	Admission *admission.Control
	Gate      *limits.Gate // bounds appends and other puts in progress

	MaxOpen     int64         // most incomplete uploads, until Reconfigure
	TTL         time.Duration // how long an upload lives after the last bytes, until Reconfigure
	HashWorkers int

	// MayExpire reports whether the machine's clock can be trusted to expire uploads.
	MayExpire func() bool //lockcheck:computes it compares the time with what peers said
	// Allowed returns why an object must not be stored: bad_digest when it is not expect, or
	// denied. A zero expect allows any address.
	Allowed func(root, expect b3.Root) error
	// Visible reports whether an object is visible and not known to be damaged.
	Visible func(root b3.Root) (bool, error)
	// CommitSmall and CommitLarge make an object visible whose bytes hash to root.
	// CommitLarge calls done once, when the files of st are not needed any more.
	CommitSmall func(ctx context.Context, root b3.Root, p []byte, deferred bool) (isNew bool, err error)
	CommitLarge func(
		ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func(),
	) (isNew bool, err error)
	// DropPartial deletes a partial download of an object that is complete now.
	DropPartial func(ctx context.Context, root b3.Root)
	// Pin pins an object, not recursively, unless the label pins it already. The bytes that charge has counted become
	// the pin's.
	Pin func(ctx context.Context, root b3.Root, label string, charge *quota.Charge) error
}

// Table holds the uploads, and completed ones until they expire. The backend has them too.
// Its methods are safe for concurrent use. Load fills it, Serve removes expired uploads,
// Close waits for its writes.
type Table struct {
	deps     Deps
	limit    *limits.Usage             // incomplete uploads
	each     *limits.Usage             // those of the capability that has the most
	outcomes map[outcome]*atomic.Int64 // of ended uploads; the map itself does not change

	mu      sync.Mutex // lock: leaf
	uploads map[meta.UploadID]*state
	ttl     time.Duration // how long an upload lives after the last bytes
	places  places        // of incomplete uploads, and those that are being created
	ended   ring

	writes latch.Latch // writes to the backend, which closes when they have ended
}

// NewTable returns an empty table.
func NewTable(deps Deps) *Table {
	deps.Env.SetDefaults()
	t := &Table{deps: deps, ttl: deps.TTL, uploads: map[meta.UploadID]*state{}, outcomes: map[outcome]*atomic.Int64{}}
	outcomes := []outcome{endedWhole, endedExpired, endedRemoved, endedBadDigest, endedDenied, endedLost, endedEvicted}
	for _, end := range outcomes {
		t.outcomes[end] = new(atomic.Int64)
	}
	limitPlaces(t, deps.Limits, deps.MaxOpen)
	t.register(deps.Metrics)
	return t
}

// Reconfigure changes the number of incomplete uploads, and how long an upload lives after the bytes that come from now
// on. Uploads beyond the number stay until they end.
func (t *Table) Reconfigure(maxOpen int64, ttl time.Duration) {
	t.limit.Resize(maxOpen)
	t.each.Resize((maxOpen + 1) / 2)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places.all, t.ttl = maxOpen, ttl
}

func lifetime(t *Table) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ttl
}

// Close waits for the writes to the backend in progress and refuses further ones.
func (t *Table) Close() { t.writes.CloseAndWait() }

// report logs an error of a clean-up.
func (t *Table) report(op string, err error) {
	if err != nil {
		t.deps.Log.Warn("cannot clean up an upload; the next start will", "op", op, "err", err)
	}
}

// add enters u, which reserve has counted.
func (t *Table) add(u *state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uploads[u.rec.ID] = u
}

// get returns the record of an upload.
func (t *Table) get(id string) (meta.Upload, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, err := t.find(id)
	if err != nil {
		return meta.Upload{}, err
	}
	return u.rec, nil
}

// find returns an upload that has not expired: else gone or not_found. The caller holds mu.
func (t *Table) find(id string) (*state, error) {
	key, ok := ParseID(id)
	u := t.uploads[key]
	switch {
	case !ok:
	case u != nil && !u.expiring && (u.busy || u.rec.Expires > meta.SecondOf(time.Now()) || !t.deps.MayExpire()):
		return u, nil
	case u != nil, t.ended.has(key):
		return nil, status.Errorf(status.Gone, "the upload expired or was removed; begin another")
	}
	return nil, status.Errorf(status.NotFound, "there is no such upload; begin one")
}

// lock gives the caller the sole right to change an upload, until unlock. It is conflict
// when somebody else has it.
func (t *Table) lock(id string) (*state, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, err := t.find(id)
	if err != nil {
		return nil, err
	}
	if u.busy {
		return nil, status.Errorf(status.Conflict, "an append to this upload is running; wait for it, or cancel it")
	}
	u.busy = true
	return u, nil
}

func (t *Table) unlock(u *state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.busy, u.expiring = false, false
}

// set updates the record of u to what the backend has. The caller has locked u.
func (t *Table) set(u *state, rec meta.Upload) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rec.Done && !u.rec.Done {
		t.places.leave(ownerOf(rec.ID))
		t.outcomes[endedWhole].Add(1)
	}
	u.rec = rec
}

// forget drops u from the table. The caller has locked u.
func (t *Table) forget(u *state, why outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.uploads, u.rec.ID)
	if !u.rec.Done {
		t.places.leave(ownerOf(u.rec.ID))
		t.outcomes[why].Add(1)
	}
	t.ended.add(u.rec.ID)
}

// count returns how many uploads are incomplete, and how many bytes of them are stored.
func (t *Table) count() (open, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.uploads {
		if !u.rec.Done {
			bytes += u.rec.Offset
		}
	}
	return t.places.taken, bytes
}

// Stats are the counters of uploads. Whole, Expired and Dropped count from the start of the
// process.
type Stats struct {
	Open    int64 `json:"open"`    // incomplete
	Bytes   int64 `json:"bytes"`   // stored of the incomplete ones
	Whole   int64 `json:"whole"`   // became objects
	Expired int64 `json:"expired"` // removed because nothing came for Deps.TTL
	// removed on request, for wrong or denied bytes, for another one, or lost by the disk
	Dropped int64 `json:"dropped"`
}

// Stats returns the counters.
func (t *Table) Stats() Stats {
	open, bytes := t.count()
	n := func(end outcome) int64 { return t.outcomes[end].Load() }
	return Stats{
		Open: open, Bytes: bytes, Whole: n(endedWhole), Expired: n(endedExpired),
		Dropped: n(endedRemoved) + n(endedBadDigest) + n(endedDenied) + n(endedLost) + n(endedEvicted),
	}
}

// takeExpired locks and returns an upload that Serve must remove: one that expired, or the
// completed one that expires first when there are too many. It returns nil for none.
func (t *Table) takeExpired(now meta.Second) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	var next *state
	whole := 0
	for _, u := range t.uploads {
		if u.rec.Done {
			whole++
		}
		switch {
		case u.busy:
		case u.rec.Expires <= now:
			u.busy, u.expiring = true, true
			return u
		case u.rec.Done && (next == nil || u.rec.Expires < next.rec.Expires):
			next = u
		}
	}
	if whole <= maxRemembered || next == nil {
		return nil
	}
	next.busy, next.expiring = true, true
	return next
}
