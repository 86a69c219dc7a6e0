package store

import (
	"sync"
	"time"
)

// second is a time in seconds since the Unix epoch; 0 is unknown.
type second uint32

func secondOf(t time.Time) second { return second(t.Unix()) }

func (s second) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}

// maxAhead is how far holds may take a clock ahead of the wall's, in seconds.
const maxAhead = 60

// clock gives the times at which objects are stored and used. It never runs
// backwards, and a hold finds a time that nothing was stamped with yet, so that
// it keeps what comes after it and nothing else; only when holds begin faster
// than one a second for long does it keep some of what came just before.
type clock struct {
	wall func() time.Time

	mu     sync.Mutex
	latest second // of all times given
	used   second // the latest that was stamped
	aloft  second // stamp of what the log's writer is about to enter, 0 for nothing
}

func newClock(wall func() time.Time) *clock { return &clock{wall: wall} }

// stamp is the time of something that happens now.
func (c *clock) stamp() second {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// now is stamp; mu is held.
func (c *clock) now() second {
	c.latest = max(c.latest, secondOf(c.wall()))
	c.used = c.latest
	return c.latest
}

// takeOff is the stamp of what shows in the index only later. It ends with land.
// There is one at a time.
func (c *clock) takeOff() second {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aloft = c.now()
	return c.aloft
}

func (c *clock) land() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aloft = 0
}

// begin is a time that is later than every stamp of what shows by now.
func (c *clock) begin() second {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := secondOf(c.wall())
	c.latest = max(c.latest, wall)
	if c.latest == c.used && c.latest < wall+maxAhead {
		c.latest++
	}
	if c.aloft != 0 {
		return min(c.latest, c.aloft)
	}
	return c.latest
}
