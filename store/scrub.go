package store

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// What a scrub does at a time.
const (
	scrubDelay     = time.Minute // after the start: a node that has just started has better things to do
	scrubSlice     = 256 << 10   // bytes between two rests, at most
	scrubSpell     = 10 * time.Millisecond
	scrubMinCharge = 4 << 10 // bytes that an object counts for at least: finding it is work too

	scrubSaveObjects = 256 // the position is noted after so many objects,
	scrubSaveEvery   = time.Minute
)

// Scrub is how far the background check has come.
type Scrub struct {
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

// scrubPlace is where the position of a scrub outlives the process.
type scrubPlace interface {
	ScrubState() ([]byte, error)
	SetScrubState(v []byte) error
}

// scrubber reads every object again, in order of address and at its own pace,
// proves it and tells the store of what is damaged. What is in a bucket it leaves
// out. It holds no lease while it
// reads, so it keeps nothing from being deleted: what looks damaged is looked at
// once more under a lease before that counts.
type scrubber struct {
	s     *Store
	place scrubPlace
	buf   []byte // of one group
	pace  ratePacer

	bytes, objects, bad atomic.Int64 // since the start

	mu  sync.Mutex
	now scrubState // written by run alone
}

// newScrubber returns nil for a backend that does not age, or when it is off.
func newScrubber(s *Store) *scrubber {
	place, ok := s.backend.(scrubPlace)
	if !ok || s.cfg.ScrubRate == 0 {
		return nil
	}
	return &scrubber{s: s, place: place, pace: ratePacer{rate: int64(s.cfg.ScrubRate), duty: s.cfg.ScrubDuty}}
}

// stats is the state as Stats shows it.
func (c *scrubber) stats() Scrub {
	if c == nil {
		return Scrub{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.shown()
}

// run scrubs until ctx ends, one cycle every scrub_interval.
func (c *scrubber) run(ctx context.Context) {
	if c == nil {
		return
	}
	st, err := loadScrub(c.place)
	if err != nil {
		c.s.log.Warn("where the scrub was is not known; it begins anew", "err", err)
	}
	c.show(st)
	wait := scrubDelay
	for {
		if !st.running {
			wait = max(wait, st.due(c.s.cfg.ScrubInterval))
		}
		if limits.Sleep(ctx, wait) != nil {
			return
		}
		if !st.running {
			st.begin()
			c.show(st)
		}
		c.buf = make([]byte, b3.GroupSize)
		err := c.cycle(ctx, &st)
		c.buf = nil
		c.save(st)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.s.log.Warn("the scrub could not go on; it tries again", "err", err)
		default:
			c.s.log.Info("every object was checked", "objects", st.objects, "bytes", st.bytes, "bad", st.bad, "took", st.lastTook)
		}
		wait = scrubDelay
	}
}

// cycle goes on from st to the last object. An error is of the index.
func (c *scrubber) cycle(ctx context.Context, st *scrubState) error {
	c.pace.start()
	page := make([]meta.Entry, 0, meta.PageSize)
	saved, since := time.Now(), 0
	for more := true; more; {
		found, err := c.s.entryPage(ctx, st.next, page)
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
			if since++; since >= scrubSaveObjects || time.Since(saved) >= scrubSaveEvery {
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
func (c *scrubber) passes(e meta.Entry) bool {
	return c.s.cfg.Backend == BackendS3 && !meta.Small(e.Size)
}

// pass leaves an object out. Its error is ctx's.
func (c *scrubber) pass(ctx context.Context, _ *scrubState, _ meta.Entry) error {
	return c.pace.did(ctx, 0)
}

// check proves one object and counts it. Its error is ctx's.
func (c *scrubber) check(ctx context.Context, st *scrubState, e meta.Entry) error {
	var done int64
	err := c.prove(ctx, e, &done)
	if err != nil && ctx.Err() == nil {
		// Deleted, moved or replaced meanwhile, or damaged indeed.
		done = 0
		err = c.s.verify(ctx, e.Root, c.buf, c.charge(ctx, &done))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.pace.did(ctx, max(0, scrubMinCharge-done)); err != nil {
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
func (c *scrubber) prove(ctx context.Context, e meta.Entry, done *int64) error {
	if e.Corrupt { // whether it still is has to be seen under a lease
		return meta.Defect("digest")
	}
	charge := c.charge(ctx, done)
	if meta.Small(e.Size) {
		if _, err := c.s.load(&e); err != nil {
			return err
		}
		return charge(int(e.Size))
	}
	p, err := c.s.backend.OpenPair(e)
	if err != nil {
		return err
	}
	defer p.Close()
	src := newPassingSource(p, e.Size)
	defer src.leave()
	return prove(c.s.hash, e.Root, e.Size, src, c.buf, charge)
}

// charge counts bytes as they are read, and rests where the pace asks for it. It
// lets whoever waits for a core go first, so that no reader waits for more than
// one group of the scrub's; where no core is free, the scrub falls behind its
// rate and not the readers.
func (c *scrubber) charge(ctx context.Context, done *int64) func(n int) error {
	return func(n int) error {
		runtime.Gosched()
		*done += int64(n)
		c.bytes.Add(int64(n))
		return c.pace.did(ctx, int64(n))
	}
}

func (c *scrubber) show(st scrubState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = st
}

// save notes where the scrub is. A crash may forget the latest note.
func (c *scrubber) save(st scrubState) {
	if err := c.place.SetScrubState(st.encode()); err != nil {
		c.s.log.Warn("where the scrub is could not be noted", "err", err)
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
	if p.bytes < scrubSlice && busy < scrubSpell {
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
