// Package scrub reads and proves every stored object in the background, so that damage is
// found before somebody needs the bytes.
//
// Scrubber.Run runs one Cycle every Schedule.Interval. A cycle reads the objects in order of
// address, page by page, at most Schedule.Rate bytes a second and for at most the share
// Deps.Duty of the time. It proves each object without a lease (prove). An object that
// fails is proved once more under a lease (Objects.Verify), which marks it as damaged. The
// position is saved about every minute, so a restart continues the cycle. Bytes that were
// not in the page cache are dropped from it again (uncachedSource).
package scrub

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Bounds of the work between two rests, and between two saves of the position.
const (
	startDelay = time.Minute           // from the start of the process to the first cycle
	sliceBytes = 256 << 10             // most bytes between two rests
	sliceTime  = 10 * time.Millisecond // longest time between two rests, but for one group
	minCharge  = 4 << 10               // bytes that an object counts for at least, as finding it is work too

	saveObjects = 256
	saveEvery   = time.Minute
)

// Stats describe how far the scrub has come.
type Stats struct {
	Running  bool      `json:"running"`            // a cycle is in progress, or will continue soon
	Started  time.Time `json:"started,omitzero"`   // of this cycle, or of the last one
	Objects  int64     `json:"objects"`            // checked in that cycle
	Bytes    int64     `json:"bytes"`              // of those objects
	Bad      int64     `json:"bad"`                // of those objects, that could not be proved
	Progress float64   `json:"progress"`           // share of the cycle that is done, 0 to 1
	LastEnd  time.Time `json:"last_end,omitzero"`  // of the last complete cycle; zero for none
	LastTook float64   `json:"last_took_s"`        // its duration in seconds, including time the store was closed
	LastBad  int64     `json:"last_bad,omitempty"` // objects that it could not prove
}

// StateStore saves the position of the scrub across restarts.
type StateStore interface {
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
	// Verify proves an object under a lease and marks it when it is damaged. It uses buf,
	// which holds one group, and calls did with the length of everything that it reads.
	Verify(ctx context.Context, root b3.Root, buf []byte, did func(n int) error) error
}

// Deps holds the dependencies of a Scrubber. Metrics and Hash may be nil.
type Deps struct {
	env.Env

	State   StateStore
	Objects Objects
	Hash    *b3.HashQueue

	Schedule
	Duty   float64 // largest share of the time that it works, above 0 and up to 1
	Remote bool    // large objects are in a bucket, and are not read: their host checks them
}

// Schedule says how much a Scrubber does. Scrubber.Reconfigure changes it.
type Schedule struct {
	Rate     int64         // most bytes a second; 0: the scrub is off
	Interval time.Duration // between the starts of two cycles
}

// Scrubber reads and proves every object, in order of address, and has damaged ones marked.
// It reads without a lease, so it delays no removal; an object that fails is checked once
// more under a lease. A nil Scrubber does nothing. Run or Cycle runs in one goroutine;
// Stats is safe for concurrent use.
type Scrubber struct {
	deps    Deps
	buf     []byte // one group, while a cycle runs
	limiter rateLimiter
	changed chan struct{} // of one: there is a new schedule

	bytes, objects, bad atomic.Int64 // since the start

	mu       sync.Mutex // guards the rest; lock: leaf
	now      state      // written by the goroutine that runs cycles
	schedule Schedule
}

// New returns a Scrubber, which Run starts.
func New(deps Deps) *Scrubber {
	deps.Env.SetDefaults()
	c := &Scrubber{deps: deps, schedule: deps.Schedule, changed: make(chan struct{}, 1)}
	c.limiter = rateLimiter{of: c, share: deps.Duty}
	c.register(deps.Metrics)
	return c
}

// Reconfigure changes the schedule at once. A cycle that a rate of 0 interrupts goes on where it was.
func (c *Scrubber) Reconfigure(p Schedule) {
	if c == nil {
		return
	}
	c.setSchedule(p)
	select {
	case c.changed <- struct{}{}:
	default: // one change is waiting
	}
}

func (c *Scrubber) setSchedule(p Schedule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule = p
}

func (c *Scrubber) scheduleNow() Schedule {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.schedule
}

// sleep waits for d, or as long as the scrub is off. It returns earlier, with changed, when the schedule changes.
func (c *Scrubber) sleep(ctx context.Context, d time.Duration) (changed bool, err error) {
	var over <-chan time.Time
	if c.scheduleNow().Rate > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
		return false, ctx.Err()
	case <-c.changed:
		return true, ctx.Err()
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Stats returns how far the scrub has come.
func (c *Scrubber) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	st := c.state()
	return st.stats()
}

// Run scrubs until ctx is done, one cycle every Schedule.Interval.
func (c *Scrubber) Run(ctx context.Context) {
	if c == nil {
		return
	}
	st, err := load(c.deps.State)
	if err != nil {
		c.deps.Log.Warn("cannot read the position of the scrub; it starts again", "err", err)
	}
	c.setState(st)
	for {
		wait := startDelay
		if st := c.state(); !st.running {
			wait = max(wait, st.due(c.scheduleNow().Interval))
		}
		changed, err := c.sleep(ctx, wait)
		switch {
		case err != nil:
			return
		case changed:
			continue
		}
		err = c.Cycle(ctx)
		switch st := c.state(); {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.deps.Log.Warn("cannot continue the scrub; trying again", "err", err)
		default:
			c.deps.Log.Info("the scrub checked every object",
				"objects", st.objects, "bytes", st.bytes, "bad", st.bad, "took", st.lastTook)
		}
	}
}

// Cycle continues an interrupted cycle, or begins one, up to the last object, and saves the
// position. One call runs at a time. The error is of ctx or of the index.
func (c *Scrubber) Cycle(ctx context.Context) error {
	st := c.state()
	if !st.running {
		st.begin()
		c.setState(st)
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

// cycle continues from st to the last object. The error is of ctx or of the index.
func (c *Scrubber) cycle(ctx context.Context, st *state) error {
	c.limiter.start()
	page := make([]meta.Entry, 0, meta.PageSize)
	saved, since := time.Now(), 0
	for more := true; more; {
		found, err := c.deps.Objects.Page(ctx, st.next, page)
		if err != nil {
			return err
		}
		for _, e := range found {
			visit := c.check
			if c.skips(e) {
				visit = c.skip
			}
			if err := visit(ctx, st, e); err != nil {
				return err
			}
			st.next, more = meta.NextRoot(e.Root)
			c.setState(*st)
			if since++; since >= saveObjects || time.Since(saved) >= saveEvery {
				c.save(*st)
				saved, since = time.Now(), 0
			}
		}
		more = more && len(found) == cap(page)
	}
	if err := c.limiter.rest(ctx); err != nil {
		return err
	}
	st.end()
	c.setState(*st)
	return nil
}

// skips reports whether e is left out: reading bytes from a bucket costs money, and its
// host checks them.
func (c *Scrubber) skips(e meta.Entry) bool {
	return c.deps.Remote && !meta.Small(e.Size)
}

// skip counts an object that is left out. The error is ctx's.
func (c *Scrubber) skip(ctx context.Context, _ *state, _ meta.Entry) error {
	return c.limiter.worked(ctx, 0)
}

// check proves one object and counts it. The error is ctx's.
func (c *Scrubber) check(ctx context.Context, st *state, e meta.Entry) error {
	var done int64
	err := c.prove(ctx, e, &done)
	if err != nil && ctx.Err() == nil {
		// It was removed, moved or replaced meanwhile, or it is damaged.
		done = 0
		err = c.deps.Objects.Verify(ctx, e.Root, c.buf, c.countBytes(ctx, &done))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.limiter.worked(ctx, max(0, minCharge-done)); err != nil {
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

// prove reads and proves e without a lease, and adds the bytes it read to done.
func (c *Scrubber) prove(ctx context.Context, e meta.Entry, done *int64) error {
	if e.Corrupt { // Verify checks under a lease whether it still is
		return meta.Defect("digest")
	}
	charge := c.countBytes(ctx, done)
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
	src := newUncachedSource(p, e.Size)
	defer src.dropWindow()
	return Prove(c.deps.Hash.Background(), e.Root, e.Size, src, c.buf, charge)
}

// countBytes returns a function that counts bytes as they are read, and rests when the
// limits ask for it. It yields the processor first, so a reader waits for at most one group
// of the scrub. Without a free core the scrub falls behind its rate, and the readers do
// not.
func (c *Scrubber) countBytes(ctx context.Context, done *int64) func(n int) error {
	return func(n int) error {
		runtime.Gosched()
		*done += int64(n)
		c.bytes.Add(int64(n))
		return c.limiter.worked(ctx, int64(n))
	}
}

func (c *Scrubber) setState(st state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = st
}

// save saves the position. A crash may lose the latest one.
func (c *Scrubber) save(st state) {
	if err := c.deps.State.SetScrubState(st.encode()); err != nil {
		c.deps.Log.Warn("cannot save the position of the scrub", "err", err)
	}
}

// rateLimiter limits work to a rate and to a share of the time. It is for one goroutine.
type rateLimiter struct {
	of    *Scrubber
	share float64 // share of the time, above 0 and up to 1
	bytes int64   // since begun
	begun time.Time
}

func (p *rateLimiter) start() { p.bytes, p.begun = 0, time.Now() }

// worked counts n bytes of work, and rests at the end of a slice. The error is ctx's.
func (p *rateLimiter) worked(ctx context.Context, n int64) error {
	p.bytes += n
	busy := time.Since(p.begun)
	if p.bytes < sliceBytes && busy < sliceTime {
		return ctx.Err()
	}
	return p.rest(ctx)
}

// rest waits as long as the work since the last rest asks for. The error is ctx's.
func (p *rateLimiter) rest(ctx context.Context) error {
	busy := time.Since(p.begun)
	for changed := true; changed; {
		byRate := time.Duration(float64(p.bytes) / float64(max(1, p.of.scheduleNow().Rate)) * float64(time.Second))
		ends := p.begun.Add(max(byRate, time.Duration(float64(busy)/p.share)))
		var err error
		if changed, err = p.of.sleep(ctx, time.Until(ends)); err != nil {
			return err
		}
	}
	p.start()
	return nil
}

// Prove reads and proves the whole tree of an object. It calls did with the length of each
// item; an error of did ends the walk.
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
