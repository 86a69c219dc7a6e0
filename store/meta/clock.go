package meta

import (
	"sync"
	"time"
)

// Second is a time in seconds since the Unix epoch; 0 is unknown.
type Second uint32

// SecondOf returns t in whole seconds.
func SecondOf(t time.Time) Second { return Second(t.Unix()) }

// Time returns s in UTC, and the zero time when it is unknown.
func (s Second) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

// maxAhead is how far holds may take a clock ahead of the wall's, in seconds.
const maxAhead = 60

// Clock gives the times at which objects are stored and used. It never runs
// backwards, and a hold finds a time that nothing was stamped with yet, so that
// it keeps what comes after it and nothing else; only when holds begin faster
// than one a second for long does it keep some of what came just before.
type Clock struct {
	wall func() time.Time

	mu         sync.Mutex
	latest     Second // of all times given
	used       Second // the latest that was stamped
	committing Second // stamp of what the log's writer is about to enter, 0 for nothing
}

// NewClock returns a clock that follows wall.
func NewClock(wall func() time.Time) *Clock { return &Clock{wall: wall} }

// Stamp returns the time of something that happens now.
func (c *Clock) Stamp() Second {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// now is Stamp; mu is held.
func (c *Clock) now() Second {
	c.latest = max(c.latest, SecondOf(c.wall()))
	c.used = c.latest
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

// EndCommit ends the commit: its objects are visible, or will never be.
func (c *Clock) EndCommit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committing = 0
}

// BeginHold returns a time that is later than every stamp of what shows by now.
func (c *Clock) BeginHold() Second {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := SecondOf(c.wall())
	c.latest = max(c.latest, wall)
	if c.latest == c.used && c.latest < wall+maxAhead {
		c.latest++
	}
	if c.committing != 0 {
		return min(c.latest, c.committing)
	}
	return c.latest
}
