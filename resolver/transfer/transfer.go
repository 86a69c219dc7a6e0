package transfer

import (
	"context"
	"errors"
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
	s      *Set
	root   b3.Root
	trace  *trace.Lookup
	src    *providers.Candidates
	stream *Options // of the only waiter, which reads through RAM; nil: the object is stored

	content
	arrivals arrivals
	fills    fills // what its requests write to beside the ingest
	waiters  waiters
	peers    peers

	wake chan struct{} // holds one: the driver looks at everything
	done chan struct{} // closed at the end; err is set before
	err  error
}

// content is the object, as far as it is known and stored.
type content struct {
	known   chan struct{} // closed once size, ingest and resumed are set
	size    int64         // proved
	ingest  Ingest
	resumed int64       // bytes that were stored at the start
	reread  atomic.Bool // a stored group was lost
}

// groups returns the object's number of groups. The size must be known.
func (c *content) groups() int64 { return b3.Groups(c.size) }

// open makes the proved size known, and where the groups are stored.
func (c *content) open(size int64, ingest Ingest, resumed int64) {
	c.size, c.ingest, c.resumed = size, ingest, resumed
	close(c.known)
}

// arrivals counts what has arrived from peers.
type arrivals struct {
	begun  time.Time    // when the transfer began to ask peers; zero: it has not. Set before there is a request
	bytes  atomic.Int64 // verified bytes that were missing
	latest atomic.Int64 // when they arrived, in nanoseconds since begun
}

func (a *arrivals) add(bytes int) {
	a.bytes.Add(int64(bytes))
	a.latest.Store(int64(time.Since(a.begun)))
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

// back notes that a peer is connected.
func (t *transfer) back(p peer.ID) {
	t.peers.connected(p)
	t.wakeDriver()
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
	err := t.s.pool.Guard(t.trace.ID().String(), func() error { return t.fetch(ctx) })
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
	case t.ingest != nil && t.resumed+t.arrivals.bytes.Load() > 0:
		return nil
	}
	return status.Errorf(status.Canceled, "the callers left before anything had arrived")
}

// observeEnd reports the end of a transfer that has asked peers.
func (t *transfer) observeEnd(err error) {
	if t.arrivals.begun.IsZero() {
		return
	}
	e := Event{
		Root: t.root, LookupID: t.trace.ID(), Ended: true, Outcome: status.Of(err),
		Bytes: t.arrivals.bytes.Load(), Took: time.Since(t.arrivals.begun),
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
	t.arrivals.begun = time.Now()
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
		t.open(size, newWindow(t.root, size, start/b3.GroupSize), 0)
		return nil
	}
	ingest, err := t.s.local.Ingest(ctx, t.root, size)
	if err != nil {
		return providers.Final(err)
	}
	t.open(size, ingest, ingest.Held())
	return nil
}

// got counts verified bytes that were missing.
func (t *transfer) got(n int) {
	t.arrivals.add(n)
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
