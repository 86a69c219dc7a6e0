package meta

import (
	"sync"
	"time"
)

// Second is a time in seconds since the Unix epoch. 0 means unknown.
type Second uint32

// SecondOf returns t in whole seconds.
func SecondOf(t time.Time) Second { return Second(t.Unix()) }

// Time returns s in UTC, or the zero time if s is unknown.
func (s Second) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

// maxAhead is the maximum number of seconds that GC holds may set a clock ahead of the wall clock.
const maxAhead = 60

// Clock gives the times at which objects are stored and used. It never runs
// backwards. A GC hold normally begins at a time that no object was stamped with,
// so it protects later objects and no earlier ones. If holds begin faster than
// one a second for a minute, a hold also protects objects stamped in the same
// second, just before it. Clock is safe for concurrent use.
type Clock struct {
	wall func() time.Time

	mu         sync.Mutex // lock: leaf
	latest     Second     // latest time given out
	stamped    Second     // latest time that an object was stamped with
	committing Second     // timestamp of the batch being committed, 0 for none
}

// NewClock returns a clock that reads the time from wall.
func NewClock(wall func() time.Time) *Clock { return &Clock{wall: wall} }

// Stamp returns the timestamp of an event that happens now.
func (c *Clock) Stamp() Second {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// now is Stamp for callers that hold mu.
func (c *Clock) now() Second {
	c.latest = max(c.latest, SecondOf(c.wall()))
	c.stamped = c.latest
	return c.latest
}

// BeginCommit returns the timestamp of a batch whose objects become visible only
// later. A hold that begins before EndCommit protects them. At most one commit
// runs at a time.
func (c *Clock) BeginCommit() Second {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committing = c.now()
	return c.committing
}

// EndCommit ends the commit: its objects are visible, or will never become so.
func (c *Clock) EndCommit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committing = 0
}

// BeginHold returns the begin of a GC hold. It is later than the timestamps of all
// objects that are visible now, as far as maxAhead allows, and not later than the
// batch being committed.
func (c *Clock) BeginHold() Second {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := SecondOf(c.wall())
	c.latest = max(c.latest, wall)
	if c.latest == c.stamped && c.latest < wall+maxAhead {
		c.latest++
	}
	if c.committing != 0 {
		return min(c.latest, c.committing)
	}
	return c.latest
}
