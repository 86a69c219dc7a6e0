package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/partial"
)

// When what arrived is noted. A crash costs at most checkpointMost of a
// download, at any rate.
const (
	checkpointBytes = 32 << 20 // so that writers seldom wait while one is written
	checkpointMost  = 64 << 20 // of one object that are not noted: a write beyond that waits
	checkpointAge   = 5 * time.Second
	checkpointRetry = 100 * time.Millisecond // between two of one object, however fast it comes
)

// partials are the partial objects that somebody uses, and the counters of all.
// What nobody uses is in the backend alone, its files closed.
type partials struct {
	objects, bytes atomic.Int64 // of large objects that are not whole, in use or not
	waits          atomic.Int64 // writes that waited for a checkpoint

	kick chan struct{} // wakes the checkpoint clock

	mu sync.Mutex
	m  map[b3.Root]*partialObject

	writers
}

func newPartials() *partials {
	return &partials{m: map[b3.Root]*partialObject{}, kick: make(chan struct{}, 1)}
}

// count takes the counters from the backend, which was just opened.
func (t *partials) count(b backend) error {
	page := make([]partial.Record, 0, meta.PageSize)
	var from b3.Root
	for more := true; more; {
		found, err := b.Partials(from, page)
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

// use returns the partial of root with one more user: the one that is in use,
// or what the backend has, or, for a size ≥ 0, a new one of that claimed size.
// The caller leases root and was admitted.
func (t *partials) use(ctx context.Context, s *Store, root b3.Root, size int64) (*partialObject, error) {
	if err := s.leases.Settle(ctx, root); err != nil {
		return nil, err
	}
	for {
		t.mu.Lock()
		p := t.m[root]
		if p == nil {
			p = newPartial(s, root)
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
func (t *partials) load(p *partialObject, size int64) error {
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
func (t *partials) remove(p *partialObject) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m[p.root] == p {
		delete(t.m, p.root)
		close(p.gone)
	}
}

// all are the partials in use now.
func (t *partials) all() []*partialObject {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*partialObject, 0, len(t.m))
	for _, p := range t.m {
		all = append(all, p)
	}
	return all
}

// hold returns the partial of root with one more user when it is in use, nil
// else.
func (t *partials) hold(root b3.Root) *partialObject {
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
func (t *partials) alert() {
	select {
	case t.kick <- struct{}{}:
	default: // it is about to look
	}
}

// serve is the checkpoint clock of all partials, until ctx is done.
func (t *partials) serve(ctx context.Context) {
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
func (t *partials) saveDue(now time.Time) (wait time.Duration, ok bool) {
	wait = checkpointAge
	var due []*partialObject
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

// close notes everything and admits no more: the backend is about to close.
func (t *partials) Close() {
	t.save(t.all())
	t.writers.Close()
}

// save notes what came of each, a few at a time, so that their syncs share the
// disk's journal.
func (t *partials) save(each []*partialObject) {
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
