package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/quota"
	"allium/store/upload"
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

// upload is an upload that is known. Whoever made it busy owns all but rec,
// which it alone changes, under the table's lock.
type uploadState struct {
	rec    upload.Record
	busy   bool // of the table
	ending bool // of the table: busy since the janitor removes it

	hashed    b3.Mark // how far the bytes are hashed; zero after a restart
	charge    *quota.Charge
	room      meta.Count // taken
	unwritten int64      // of room: not on the disk yet
}

// uploadEnd is how an upload that is not whole ended, as the label of a metric.
type uploadEnd string

const (
	uploadWhole     uploadEnd = "whole"
	uploadExpired   uploadEnd = "expired"
	uploadRemoved   uploadEnd = "removed"
	uploadBadDigest uploadEnd = "bad_digest"
	uploadDenied    uploadEnd = "denied"
	uploadLost      uploadEnd = "lost"
)

// uploads are the uploads, whole ones for a while. The backend has them too.
type uploads struct {
	most      int64
	mayExpire func() bool // the clock is right
	limit     *limits.Usage
	ends      map[uploadEnd]*atomic.Int64 // of those above; never written

	mu    sync.Mutex
	m     map[upload.ID]*uploadState
	open  int64 // of m, those that are not whole, and those about to be in it
	ended ring

	writers
}

func newUploads(most int64, mayExpire func() bool, registry *limits.Registry) *uploads {
	t := &uploads{most: most, mayExpire: mayExpire, m: map[upload.ID]*uploadState{}, ends: map[uploadEnd]*atomic.Int64{}}
	for _, end := range []uploadEnd{uploadWhole, uploadExpired, uploadRemoved, uploadBadDigest, uploadDenied, uploadLost} {
		t.ends[end] = new(atomic.Int64)
	}
	t.limit = registry.NewUsage(limits.Spec{
		Name: "store.uploads", Path: "gateway /u → uploads that are not whole", Policy: "reject busy",
	}, most, func() int64 { n, _ := t.count(); return n })
	return t
}

// reserve makes room for one more upload, or returns busy.
func (t *uploads) reserve() error {
	t.mu.Lock()
	full := t.open >= t.most
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
		"%d uploads are not whole yet (store.uploads); end or remove one, or send the object in one piece", t.most)}
}

func (t *uploads) unreserve() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
}

// add enters u, for which reserve made room.
func (t *uploads) add(u *uploadState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m[u.rec.ID] = u
}

// get returns the state of an upload.
func (t *uploads) get(id string) (upload.Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, err := t.find(id)
	if err != nil {
		return upload.Record{}, err
	}
	return u.rec, nil
}

// find looks an upload up. mu is held.
func (t *uploads) find(id string) (*uploadState, error) {
	key, ok := upload.ParseID(id)
	u := t.m[key]
	switch {
	case !ok:
	case u != nil && !u.ending && (u.busy || u.rec.Expires > meta.SecondOf(time.Now()) || !t.mayExpire()):
		return u, nil
	case u != nil, t.ended.has(key):
		return nil, status.Errorf(status.Gone, "store: the upload expired or was removed; begin another")
	}
	return nil, status.Errorf(status.NotFound, "store: there is no such upload; begin one")
}

// begin makes the caller the one that may change an upload, until end.
func (t *uploads) begin(id string) (*uploadState, error) {
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

func (t *uploads) end(u *uploadState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.busy, u.ending = false, false
}

// set notes what the backend has of u, which the caller holds.
func (t *uploads) set(u *uploadState, rec upload.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rec.Done && !u.rec.Done {
		t.open--
		t.ends[uploadWhole].Add(1)
	}
	u.rec = rec
}

// drop forgets u, which the caller holds.
func (t *uploads) drop(u *uploadState, why uploadEnd) {
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
func (t *uploads) count() (open, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.m {
		if !u.rec.Done {
			bytes += u.rec.Offset
		}
	}
	return t.open, bytes
}

// stats are the counters.
func (t *uploads) stats() Uploads {
	open, bytes := t.count()
	n := func(end uploadEnd) int64 { return t.ends[end].Load() }
	return Uploads{
		Open: open, Bytes: bytes, Whole: n(uploadWhole), Expired: n(uploadExpired),
		Dropped: n(uploadRemoved) + n(uploadBadDigest) + n(uploadDenied) + n(uploadLost),
	}
}

// overdue makes the caller the one to remove an upload that expired, or the
// whole one with the least time left when there are too many; nil for none.
func (t *uploads) overdue(now meta.Second) *uploadState {
	t.mu.Lock()
	defer t.mu.Unlock()
	var next *uploadState
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

// expireUploads removes what expired, until ctx is done.
func (s *Store) expireUploads(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.mayExpire() {
			s.expireNow(ctx)
		}
	}
}

// expireNow removes what expired, with a rest after each.
func (s *Store) expireNow(ctx context.Context) {
	for u := s.uploads.overdue(meta.SecondOf(time.Now())); u != nil; u = s.uploads.overdue(meta.SecondOf(time.Now())) {
		err := s.dropUpload(u, uploadExpired)
		s.uploads.end(u)
		if err != nil {
			s.report("remove an upload that expired", err)
			return
		}
		if limits.Sleep(ctx, expirePause) != nil {
			return
		}
	}
}

// loadUploads takes over what the backend has, when the store opens, and ends
// what a crash cut off between publication and pin.
func (s *Store) loadUploads(ctx context.Context) error {
	recs, err := s.backend.Uploads()
	if err != nil {
		return fmt.Errorf("store: read the uploads: %w", err)
	}
	for _, rec := range recs {
		u := &uploadState{rec: rec}
		s.uploads.add(u)
		if rec.Done {
			continue
		}
		s.uploads.mu.Lock()
		s.uploads.open++ // more than Config.Uploads, where that was lowered
		s.uploads.mu.Unlock()
		u.charge = s.quotas.Charge(rec.Label)
		u.charge.Restore(meta.Count{Objects: 1, Bytes: rec.Length})
		u.room = meta.Count{Objects: 1, Bytes: meta.StoredSize(rec.Length)}
		u.unwritten = u.room.Bytes - rec.Offset
		s.space.TakeWhole(u.room, u.unwritten)
		if rec.Root.IsZero() {
			continue
		}
		if e, ok, err := s.backend.Get(rec.Root); err == nil && ok && !e.Corrupt {
			if err := s.settleUpload(ctx, u, true); err != nil {
				s.log.Warn("an upload that is whole could not be ended; its next append will", "err", err)
			}
		}
	}
	return nil
}

// ring are the latest maxEnded uploads that ended.
type ring struct {
	ids  [maxEnded]upload.ID
	next int
	set  map[upload.ID]struct{}
}

func (r *ring) add(id upload.ID) {
	if r.set == nil {
		r.set = map[upload.ID]struct{}{}
	}
	delete(r.set, r.ids[r.next])
	r.ids[r.next] = id
	r.set[id] = struct{}{}
	r.next = (r.next + 1) % len(r.ids)
}

func (r *ring) has(id upload.ID) bool {
	_, ok := r.set[id]
	return ok
}
