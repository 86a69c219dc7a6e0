// Package scrub reads every stored object again, at its own pace, and proves it, so that
// damage is found before somebody needs the bytes.
package scrub

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// What a scrub does at a time.
const (
	delay     = time.Minute // after the start: a node that has just started has better things to do
	slice     = 256 << 10   // bytes between two rests, at most
	spell     = 10 * time.Millisecond
	minCharge = 4 << 10 // bytes that an object counts for at least: finding it is work too

	saveObjects = 256 // the position is noted after so many objects,
	saveEvery   = time.Minute
)

// Stats are how far the background check has come.
type Stats struct {
	Running  bool      `json:"running"`            // a cycle is under way, or about to go on
	Started  time.Time `json:"started,omitzero"`   // of this cycle, or of the last one
	Objects  int64     `json:"objects"`            // checked in it
	Bytes    int64     `json:"bytes"`              // of them
	Bad      int64     `json:"bad"`                // of them could not be proved
	Progress float64   `json:"progress"`           // share of the cycle that is done, 0 to 1
	LastEnd  time.Time `json:"last_end,omitzero"`  // of the last whole cycle; zero: there was none
	LastTook float64   `json:"last_took_s"`        // seconds that it took, with the time the store was closed
	LastBad  int64     `json:"last_bad,omitempty"` // objects that it could not prove
}

// Place is where the position of a scrub outlives the process.
type Place interface {
	ScrubState() ([]byte, error)
	SetScrubState(v []byte) error
}

// Objects are the objects of a store.
type Objects interface {
	// Load reads a small object and proves it; e is brought up to date when it moved.
	Load(e *meta.Entry) (*b3.Memory, error)
	// OpenPair opens a large object, unverified.
	OpenPair(e meta.Entry) (meta.Pair, error)
	// Page appends visible objects from root on, ascending, to page up to its
	// capacity. Fewer means the end.
	Page(ctx context.Context, root b3.Root, page []meta.Entry) ([]meta.Entry, error)
	// Verify proves an object under a lease and marks it when it is damaged. It uses
	// buf, of one group, and tells did of all bytes that it reads.
	Verify(ctx context.Context, root b3.Root, buf []byte, did func(n int) error) error
}

// Deps are what a Scrubber works with. Metrics and Hash may be nil.
type Deps struct {
	Place   Place
	Objects Objects
	Hash    *b3.HashQueue
	Log     *slog.Logger
	Metrics prometheus.Registerer

	Rate     int64         // bytes a second at most
	Duty     float64       // share of the time that it works at most
	Interval time.Duration // between the beginnings of two cycles
	Remote   bool          // large objects are in a bucket: whoever keeps them checks them
}

// Scrubber reads every object again, in order of address and at its own pace,
// proves it and has what is damaged marked. It holds no lease while it reads, so it
// keeps nothing from being deleted: what looks damaged is looked at once more under a
// lease before that counts. A nil Scrubber does nothing.
type Scrubber struct {
	deps Deps
	buf  []byte // of one group
	pace ratePacer

	bytes, objects, bad atomic.Int64 // since the start

	mu  sync.Mutex
	now state // written by the goroutine that runs cycles
}

// New returns a Scrubber that Run starts.
func New(deps Deps) *Scrubber {
	c := &Scrubber{deps: deps, pace: ratePacer{rate: deps.Rate, duty: deps.Duty}}
	c.register(deps.Metrics)
	return c
}

// Stats returns how far the scrub has come.
func (c *Scrubber) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	st := c.state()
	return st.shown()
}

// Run scrubs until ctx ends, one cycle every Deps.Interval.
func (c *Scrubber) Run(ctx context.Context) {
	if c == nil {
		return
	}
	st, err := load(c.deps.Place)
	if err != nil {
		c.deps.Log.Warn("where the scrub was is not known; it begins anew", "err", err)
	}
	c.show(st)
	for {
		wait := delay
		if st := c.state(); !st.running {
			wait = max(wait, st.due(c.deps.Interval))
		}
		if limits.Sleep(ctx, wait) != nil {
			return
		}
		err := c.Cycle(ctx)
		switch st := c.state(); {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.deps.Log.Warn("the scrub could not go on; it tries again", "err", err)
		default:
			c.deps.Log.Info("every object was checked", "objects", st.objects, "bytes", st.bytes, "bad", st.bad, "took", st.lastTook)
		}
	}
}

// Cycle goes on with the cycle that an error or the end of the process interrupted, or
// begins one, to the last object, and notes where it is. One runs at a time. An error
// is ctx's or of the index.
func (c *Scrubber) Cycle(ctx context.Context) error {
	st := c.state()
	if !st.running {
		st.begin()
		c.show(st)
	}
	c.buf = make([]byte, b3.GroupSize)
	err := c.cycle(ctx, &st)
	c.buf = nil
	c.save(st)
	return err
}

func (c *Scrubber) state() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// cycle goes on from st to the last object. An error is of the index.
func (c *Scrubber) cycle(ctx context.Context, st *state) error {
	c.pace.start()
	page := make([]meta.Entry, 0, meta.PageSize)
	saved, since := time.Now(), 0
	for more := true; more; {
		found, err := c.deps.Objects.Page(ctx, st.next, page)
		if err != nil {
			return err
		}
		for _, e := range found {
			look := c.check
			if c.passes(e) {
				look = c.pass
			}
			if err := look(ctx, st, e); err != nil {
				return err
			}
			st.next, more = meta.NextRoot(e.Root)
			c.show(*st)
			if since++; since >= saveObjects || time.Since(saved) >= saveEvery {
				c.save(*st)
				saved, since = time.Now(), 0
			}
		}
		more = more && len(found) == cap(page)
	}
	if err := c.pace.rest(ctx); err != nil {
		return err
	}
	st.end()
	c.show(*st)
	return nil
}

// passes reports whether e is none of the scrub's business: bytes in a bucket
// are paid for by the read, and whoever keeps them checks them.
func (c *Scrubber) passes(e meta.Entry) bool {
	return c.deps.Remote && !meta.Small(e.Size)
}

// pass leaves an object out. Its error is ctx's.
func (c *Scrubber) pass(ctx context.Context, _ *state, _ meta.Entry) error {
	return c.pace.did(ctx, 0)
}

// check proves one object and counts it. Its error is ctx's.
func (c *Scrubber) check(ctx context.Context, st *state, e meta.Entry) error {
	var done int64
	err := c.prove(ctx, e, &done)
	if err != nil && ctx.Err() == nil {
		// Deleted, moved or replaced meanwhile, or damaged indeed.
		done = 0
		err = c.deps.Objects.Verify(ctx, e.Root, c.buf, c.charge(ctx, &done))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.pace.did(ctx, max(0, minCharge-done)); err != nil {
		return err
	}
	switch status.Of(err) {
	case status.NotFound:
		return nil
	case status.OK:
	default:
		c.bad.Add(1)
		st.bad++
	}
	c.objects.Add(1)
	st.objects++
	st.bytes += e.Size
	return nil
}

// prove reads e, without a lease.
func (c *Scrubber) prove(ctx context.Context, e meta.Entry, done *int64) error {
	if e.Corrupt { // whether it still is has to be seen under a lease
		return meta.Defect("digest")
	}
	charge := c.charge(ctx, done)
	if meta.Small(e.Size) {
		if _, err := c.deps.Objects.Load(&e); err != nil {
			return err
		}
		return charge(int(e.Size))
	}
	p, err := c.deps.Objects.OpenPair(e)
	if err != nil {
		return err
	}
	defer p.Close()
	src := newPassingSource(p, e.Size)
	defer src.leave()
	return Prove(c.deps.Hash, e.Root, e.Size, src, c.buf, charge)
}

// charge counts bytes as they are read, and rests where the pace asks for it. It
// lets whoever waits for a core go first, so that no reader waits for more than
// one group of the scrub's; where no core is free, the scrub falls behind its
// rate and not the readers.
func (c *Scrubber) charge(ctx context.Context, done *int64) func(n int) error {
	return func(n int) error {
		runtime.Gosched()
		*done += int64(n)
		c.bytes.Add(int64(n))
		return c.pace.did(ctx, int64(n))
	}
}

func (c *Scrubber) show(st state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = st
}

// save notes where the scrub is. A crash may forget the latest note.
func (c *Scrubber) save(st state) {
	if err := c.deps.Place.SetScrubState(st.encode()); err != nil {
		c.deps.Log.Warn("where the scrub is could not be noted", "err", err)
	}
}

// ratePacer keeps work under a rate and under a share of the time. It belongs to one
// goroutine.
type ratePacer struct {
	rate  int64   // bytes per second
	duty  float64 // share of the time, above 0 and up to 1
	bytes int64   // since begun
	begun time.Time
}

func (p *ratePacer) start() { p.bytes, p.begun = 0, time.Now() }

// did counts n bytes of work, and rests once there is a slice of it. Its error
// is ctx's.
func (p *ratePacer) did(ctx context.Context, n int64) error {
	p.bytes += n
	busy := time.Since(p.begun)
	if p.bytes < slice && busy < spell {
		return ctx.Err()
	}
	return p.rest(ctx)
}

// rest makes up for the work since the last one. Its error is ctx's.
func (p *ratePacer) rest(ctx context.Context) error {
	busy := time.Since(p.begun)
	total := max(time.Duration(float64(p.bytes)/float64(p.rate)*float64(time.Second)), time.Duration(float64(busy)/p.duty))
	err := limits.Sleep(ctx, total-busy)
	p.start()
	return err
}

// Prove walks the whole tree of an object. did is told of each item; its error
// ends the walk.
func Prove(hash *b3.HashQueue, root b3.Root, size int64, src b3.Source, buf []byte, did func(n int) error) error {
	w, err := hash.Walk(root, size, nil)
	if err != nil {
		return err
	}
	for item, more := w.Next(); more; item, more = w.Next() {
		if _, err := w.Fill(src, buf); err != nil {
			return err
		}
		if err := did(item.Len); err != nil {
			return err
		}
	}
	return nil
}
