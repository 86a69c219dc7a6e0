package transfer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/tasks"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// transfer fetches one object for all its waiters. It runs under the context of the
// resolver's Run. When its last waiter leaves it requests no more, stays open for
// linger, and then suspends the ingest.
type transfer struct {
	s        *Set
	root     b3.Root
	trace    *trace.Lookup
	lookupID string // of trace, for the log
	src      *providers.Candidates
	stream   *Options // of the only waiter, which reads through RAM; nil: the object is stored

	known   chan struct{} // closed once size, ingest and resumed are set
	size    int64         // proved
	ingest  Ingest
	resumed int64 // bytes that were stored at the start

	wake chan struct{} // holds one: the driver looks at everything
	done chan struct{} // closed at the end; err is set before
	err  error

	received atomic.Int64 // verified bytes that were missing
	latest   atomic.Int64 // when they arrived, in nanoseconds since begun
	reread   atomic.Bool  // a stored group was lost
	fills    fills        // what its requests write to beside the ingest

	waiters waiters

	mu      sync.Mutex           // lock: leaf
	by      map[peer.ID]struct{} // the peers that sent something
	reached []peer.ID            // connected since the driver looked, at most maxReached

	begun time.Time // when fetch began to ask peers; zero: it has not. Set before there is a request
}

// join adds a waiter. It returns nil when the transfer is ending.
func (t *transfer) join(ctx context.Context, opt Options, whole bool) *Waiter {
	w := &Waiter{t: t, opt: opt, whole: whole, joined: time.Now()}
	if !t.waiters.add(ctx, w) {
		return nil
	}
	t.wakeDriver()
	return w
}

// maxReached bounds the peers of transfer.reached. A transfer asks fewer providers.
const maxReached = 64

// back notes that a peer is connected.
func (t *transfer) back(p peer.ID) {
	t.mu.Lock()
	if len(t.reached) < maxReached {
		t.reached = append(t.reached, p)
	}
	t.mu.Unlock()
	t.wakeDriver()
}

// takeReached returns the peers that have connected since the last call.
func (t *transfer) takeReached() (peers []peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	peers, t.reached = t.reached, nil
	return peers
}

// wakeDriver makes the driver call advance.
func (t *transfer) wakeDriver() {
	select {
	case t.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// canceledBy returns err, or context.Canceled if the callers left.
func (t *transfer) canceledBy(err error) error {
	if errors.Is(err, errQuit) {
		return context.Canceled
	}
	return err
}

// errQuit ends a transfer without waiters.
var errQuit = errors.New("the transfer has no waiter any more")

func (t *transfer) run(ctx context.Context) {
	end := t.s.tasks.Begin(tasks.Fetch)
	err := t.s.pool.Guard(t.lookupID, func() error { return t.fetch(ctx) })
	if err != nil && ctx.Err() != nil {
		err = providers.ErrDraining
	}
	end(t.canceledBy(err))
	err = t.trace.Mark(err)
	waiters := t.waiters.close()
	if err != nil && t.ingest != nil {
		t.ingest.Suspend()
	}
	t.src.Close()
	t.s.mu.Lock()
	if t.stream == nil {
		delete(t.s.transfers, t.root)
	}
	t.s.mu.Unlock()
	t.trace.End(t.ended(err))
	t.err = err
	t.observeEnd(err)
	if err != nil {
		for _, w := range waiters {
			w.cancel(err)
		}
	}
	close(t.done)
}

// ended returns the error with which the record of the transfer ends. That its callers
// left is a success if something was there for them to read.
func (t *transfer) ended(err error) error {
	switch {
	case !errors.Is(err, errQuit):
		return err
	case t.ingest != nil && t.resumed+t.received.Load() > 0:
		return nil
	}
	return status.Errorf(status.Canceled, "the callers left before anything had arrived")
}

// observeEnd reports the end of a transfer that has asked peers.
func (t *transfer) observeEnd(err error) {
	if t.begun.IsZero() {
		return
	}
	e := Event{
		Root: t.root, LookupID: t.trace.ID(), Ended: true, Outcome: status.Of(err), Bytes: t.received.Load(),
		Took: time.Since(t.begun),
	}
	if errors.Is(err, errQuit) {
		e.Outcome = status.Canceled
	}
	t.s.observe(e)
}

// fetch serves the waiters, unless the object turns out to be local, and commits
// the object when it is whole.
func (t *transfer) fetch(ctx context.Context) error {
	if t.stream != nil {
		return t.drive(ctx)
	}
	defer t.s.local.Lease(t.root)()
	// Another transfer may have ended after the caller looked and before it joined.
	here, err := t.s.local.Has(ctx, []b3.Root{t.root})
	if err != nil {
		t.trace.Failed(trace.Store, 0, err)
		return err
	}
	if here[0] {
		t.trace.Step(trace.Step{Source: trace.Store, Verdict: trace.Hit})
		return nil
	}
	t.trace.Step(trace.Step{Source: trace.Store, Verdict: trace.Miss})
	size, ok, err := t.s.local.Partial(ctx, t.root)
	if err != nil {
		return err
	}
	if ok {
		if err := t.begin(ctx, size); err != nil {
			return err
		}
		if t.resumed > 0 { // 0: a peer is putting the object, and this transfer fetches it apart
			t.trace.Step(trace.Step{Source: trace.Partial, Verdict: trace.Hit, Count: t.resumed})
		}
	}
	return t.drive(ctx)
}

// drive asks peers.
func (t *transfer) drive(ctx context.Context) error {
	t.begun = time.Now()
	t.s.observe(Event{Root: t.root, LookupID: t.trace.ID()})
	d := newDriver(t)
	if err := d.run(ctx); err != nil && !d.m.Complete() {
		return err
	}
	return t.ingest.Commit(ctx)
}

// begin opens the ingest for the proved size.
func (t *transfer) begin(ctx context.Context, size int64) error {
	if t.stream != nil {
		start, _, _ := t.stream.Within(t.root, size) // Waiter.Open returns the error
		t.size, t.ingest = size, newWindow(t.root, size, start/b3.GroupSize)
		close(t.known)
		return nil
	}
	ingest, err := t.s.local.Ingest(ctx, t.root, size)
	if err != nil {
		return providers.Final(err)
	}
	t.size, t.ingest, t.resumed = size, ingest, ingest.Held()
	close(t.known)
	return nil
}

// groups returns the object's number of groups. The size must be known.
func (t *transfer) groups() int64 { return b3.Groups(t.size) }

// sent records that p sent something.
func (t *transfer) sent(p peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[p] = struct{}{}
}

// senders returns the peers that sent something.
func (t *transfer) senders() []peer.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]peer.ID, 0, len(t.by))
	for p := range t.by {
		ids = append(ids, p)
	}
	return ids
}

// got counts verified bytes that were missing.
func (t *transfer) got(n int) {
	t.received.Add(int64(n))
	t.latest.Store(int64(time.Since(t.begun)))
	if t.waiters.whole.Load() > 0 {
		t.s.m.fetchBytes.Add(float64(n))
	} else {
		t.s.m.rangeBytes.Add(float64(n))
	}
}

// lost reports whether group g, which was stored, is missing because the store
// found it damaged. The group is then requested again.
func (t *transfer) lost(g int64) bool {
	if t.ingest.Has(g) {
		return false
	}
	t.reread.Store(true)
	t.wakeDriver()
	return true
}
