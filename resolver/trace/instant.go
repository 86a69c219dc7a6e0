package trace

import "time"

// Instant is a moment, as nanoseconds by the monotonic clock since the process started. Taking one
// and computing with it costs a fraction of a time.Time, which matters to an answer from a cache.
type Instant int64

// processStart is the moment from which instants count.
var processStart = time.Now()

// Now returns the current moment.
func Now() Instant { return Instant(time.Since(processStart)) }

// InstantOf returns the moment of t, which has a monotonic part.
func InstantOf(t time.Time) Instant { return Instant(t.Sub(processStart)) }

// Add returns the moment d after t.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }
