package resolver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
)

// transfer is the one fetching of an object, whoever waits for it: of all of
// it, of ranges, or of both. It runs under Run's context. When its last user
// leaves it asks for nothing more, lingers for those who come back, and then
// keeps in the store what has arrived.
type transfer struct {
	r        *Resolver
	root     b3.Root
	lookupID string
	src      *sources

	known   chan struct{} // closed once size, ingest and resumed are set
	size    int64         // proved
	ingest  Ingest
	resumed int64 // bytes that were here at the start

	poke chan struct{} // one is enough: the schedule looks at everything
	done chan struct{} // closed when it is over; err is set before
	err  error

	received atomic.Int64 // verified bytes that were not here yet
	bulk     atomic.Int64 // wants of the whole object
	reread   atomic.Bool  // a group that was here is gone

	mu     sync.Mutex
	closed bool // nobody may join any more
	wants  []*want
	by     map[peer.ID]struct{} // who sent something
}

// join takes part in the transfer of root and starts one when there is none. l
// admitted the caller, who calls leave once.
func (r *Resolver) join(ctx context.Context, l *life, root b3.Root, opt OpenOptions, whole bool, lookupID string) (*want, error) {
	for {
		t, fresh := r.transferOf(l, root, opt.Sources, lookupID)
		if w := t.board(ctx, opt, whole); w != nil {
			if fresh {
				l.wg.Go(func() { t.run(l.ctx) })
			} else {
				t.src.add(OriginNamed, opt.Peers...)
			}
			return w, nil
		}
		// It is ending; the next one goes on where it stopped.
		select {
		case <-t.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// transferOf returns the transfer of root, fresh when it has to be run.
func (r *Resolver) transferOf(l *life, root b3.Root, from Sources, lookupID string) (t *transfer, fresh bool) {
	src := r.newSources(l, root, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.transfers[root]; t != nil {
		return t, false
	}
	t = &transfer{
		r: r, root: root, lookupID: lookupID, src: src,
		known: make(chan struct{}), poke: make(chan struct{}, 1), done: make(chan struct{}),
		by: map[peer.ID]struct{}{},
	}
	r.transfers[root] = t
	return t, true
}

// board adds a user; nil when the transfer is ending.
func (t *transfer) board(ctx context.Context, opt OpenOptions, whole bool) *want {
	w := &want{t: t, opt: opt, whole: whole, ahead: opt.ahead()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	t.wants = append(t.wants, w)
	if whole {
		t.bulk.Add(1)
	}
	t.nudge()
	return w
}

// part removes a user.
func (t *transfer) part(w *want) {
	t.mu.Lock()
	if i := slices.Index(t.wants, w); i >= 0 {
		t.wants = slices.Delete(t.wants, i, i+1)
		if w.whole {
			t.bulk.Add(-1)
		}
	}
	t.mu.Unlock()
	t.nudge()
}

// users returns those who wait.
func (t *transfer) users() []*want {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.wants)
}

// close lets nobody in any more, unless somebody is.
func (t *transfer) close() (closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = t.closed || len(t.wants) == 0
	return t.closed
}

// nudge makes the schedule look again.
func (t *transfer) nudge() {
	select {
	case t.poke <- struct{}{}:
	default: // it will look
	}
}

// errQuit ends a transfer that nobody waits for.
var errQuit = errors.New("resolver: nobody waits for the object any more")

func (t *transfer) run(ctx context.Context) {
	err := t.r.guard(func() error { return t.fetch(ctx) })
	if err != nil && ctx.Err() != nil {
		err = errDraining
	}
	t.mu.Lock()
	t.closed = true
	wants := slices.Clone(t.wants)
	t.mu.Unlock()
	if err != nil && t.ingest != nil {
		t.ingest.Suspend()
	}
	t.src.close()
	t.r.mu.Lock()
	delete(t.r.transfers, t.root)
	t.r.mu.Unlock()
	t.err = err
	if err != nil {
		for _, w := range wants {
			w.cancel(err)
		}
	}
	close(t.done)
}

// fetch gets what is wanted, unless the object turns out to be local, and
// commits the object when it is whole.
func (t *transfer) fetch(ctx context.Context) error {
	defer t.r.local.Lease(t.root)()
	// One that ended between the caller's look and its joining.
	here, err := t.r.local.Has(ctx, []b3.Root{t.root})
	if err != nil || here[0] {
		return err
	}
	size, ok, err := t.r.local.Partial(ctx, t.root)
	if err != nil {
		return err
	}
	if ok {
		if err := t.begin(ctx, size); err != nil {
			return err
		}
	}
	s := newSchedule(t)
	if err := s.run(ctx); err != nil && !s.complete() {
		return err
	}
	return t.ingest.Commit(ctx)
}

// begin opens the ingest: the size is proved.
func (t *transfer) begin(ctx context.Context, size int64) error {
	ingest, err := t.r.local.Ingest(ctx, t.root, size)
	if err != nil {
		return final(err)
	}
	t.size, t.ingest, t.resumed = size, ingest, ingest.Held()
	close(t.known)
	return nil
}

// groups is how many there are. The size is known.
func (t *transfer) groups() int64 { return b3.Groups(t.size) }

// sent notes that p sent something.
func (t *transfer) sent(p peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[p] = struct{}{}
}

// senders returns who sent something.
func (t *transfer) senders() []peer.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]peer.ID, 0, len(t.by))
	for p := range t.by {
		ids = append(ids, p)
	}
	return ids
}

// got counts verified bytes that are new.
func (t *transfer) got(n int) {
	t.received.Add(int64(n))
	if t.bulk.Load() > 0 {
		t.r.m.fetchBytes.Add(float64(n))
	} else {
		t.r.m.rangeBytes.Add(float64(n))
	}
}

// lost reports whether group g, which was here, is so no more: the store found
// it damaged. It is then asked for again.
func (t *transfer) lost(g int64) bool {
	if t.ingest.Has(g) {
		return false
	}
	t.reread.Store(true)
	t.nudge()
	return true
}
