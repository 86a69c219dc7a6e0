package upload

import (
	"context"
	"fmt"
	"time"

	"allium/internal/limits"
	"allium/store/meta"
)

// Serve removes what expired, until ctx is done.
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

// expireNow removes what expired, with a rest after each.
func (t *Table) expireNow(ctx context.Context) {
	for u := t.overdue(meta.SecondOf(time.Now())); u != nil; u = t.overdue(meta.SecondOf(time.Now())) {
		err := t.discard(u, endedExpired)
		t.end(u)
		if err != nil {
			t.report("remove an upload that expired", err)
			return
		}
		if limits.Sleep(ctx, expirePause) != nil {
			return
		}
	}
}

// Load takes over what the backend has, when the store opens, and ends what a crash
// cut off between publication and pin.
func (t *Table) Load(ctx context.Context) error {
	recs, err := t.deps.Backend.Uploads()
	if err != nil {
		return fmt.Errorf("store: read the uploads: %w", err)
	}
	for _, rec := range recs {
		u := &state{rec: rec}
		t.add(u)
		if rec.Done {
			continue
		}
		t.mu.Lock()
		t.open++ // more than Deps.Most, where that was lowered
		t.mu.Unlock()
		u.charge = t.deps.Quotas.Charge(rec.Label)
		u.charge.Restore(meta.Count{Objects: 1, Bytes: rec.Length})
		u.space = meta.Count{Objects: 1, Bytes: meta.StoredSize(rec.Length)}
		u.unwritten = u.space.Bytes - rec.Offset
		t.deps.Space.TakeWhole(u.space, u.unwritten)
		if rec.Root.IsZero() {
			continue
		}
		if here, err := t.deps.Here(rec.Root); err == nil && here {
			if err := t.settle(ctx, u, true); err != nil {
				t.deps.Log.Warn("an upload that is whole could not be ended; its next append will", "err", err)
			}
		}
	}
	return nil
}

// ring are the latest maxEnded uploads that ended.
type ring struct {
	ids  [maxEnded]ID
	next int
	set  map[ID]struct{}
}

func (r *ring) add(id ID) {
	if r.set == nil {
		r.set = map[ID]struct{}{}
	}
	delete(r.set, r.ids[r.next])
	r.ids[r.next] = id
	r.set[id] = struct{}{}
	r.next = (r.next + 1) % len(r.ids)
}

func (r *ring) has(id ID) bool {
	_, ok := r.set[id]
	return ok
}
