package resumable

import (
	"context"
	"fmt"
	"time"

	"allium/internal/limits"
	"allium/store/meta"
)

// Serve removes expired uploads until ctx is done.
func (t *Table) Serve(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if t.deps.MayExpire() {
			t.expireNow(ctx)
		}
	}
}

// expireNow removes the expired uploads, with a rest after each.
func (t *Table) expireNow(ctx context.Context) {
	for {
		u := t.takeExpired(meta.SecondOf(time.Now()))
		if u == nil {
			return
		}
		err := t.discard(u, endedExpired)
		t.unlock(u)
		if err != nil {
			t.report("remove an expired upload", err)
			return
		}
		if limits.Sleep(ctx, expirePause) != nil {
			return
		}
	}
}

// Load reads the uploads from the backend when the store opens. It completes an upload
// whose object was published, but not pinned, before a crash.
func (t *Table) Load(ctx context.Context) error {
	recs, err := t.deps.Backend.Uploads()
	if err != nil {
		return fmt.Errorf("read the uploads: %w", err)
	}
	for _, rec := range recs {
		u := &state{rec: rec}
		t.add(u)
		if rec.Done {
			continue
		}
		t.mu.Lock()
		t.places.take(ownerOf(rec.ID)) // may exceed Deps.MaxOpen, which may have been lowered
		t.mu.Unlock()
		u.charge = t.deps.Quotas.Charge(rec.Label)
		u.charge.Restore(meta.Count{Objects: 1, Bytes: rec.Length})
		u.space = meta.Count{Objects: 1, Bytes: meta.StoredSize(rec.Length)}
		u.unwritten = u.space.Bytes - rec.Offset
		t.deps.Space.TakeUnwritten(u.space, u.unwritten)
		if rec.Root.IsZero() {
			continue
		}
		if visible, err := t.deps.Visible(rec.Root); err == nil && visible {
			if err := t.complete(ctx, u, true); err != nil {
				t.deps.Log.Warn("cannot complete an upload; its next append will", "err", err)
			}
		}
	}
	return nil
}

// ring remembers the latest maxEnded uploads that ended.
type ring struct {
	ids  [maxEnded]meta.UploadID
	next int
	set  map[meta.UploadID]struct{}
}

func (r *ring) add(id meta.UploadID) {
	if r.set == nil {
		r.set = map[meta.UploadID]struct{}{}
	}
	delete(r.set, r.ids[r.next])
	r.ids[r.next] = id
	r.set[id] = struct{}{}
	r.next = (r.next + 1) % len(r.ids)
}

func (r *ring) has(id meta.UploadID) bool {
	_, ok := r.set[id]
	return ok
}
