package deadline

import (
	"errors"
	"time"
)

// ErrPassed is the end of a wait for a peer.
var ErrPassed = errors.New("deadline passed")

// expired reports whether err says that the deadline that was set has passed. A
// connection that died of a timeout of its own says the same of every call from
// then on, at once. yamux's timeout is not os.ErrDeadlineExceeded.
func expired(err error, set, now time.Time) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout() && set.Sub(now) < fuzz
}

// fuzz is how much earlier than its deadline a transport may say that it passed.
const fuzz = time.Millisecond

// MinRate bounds how long a peer may take over what it has begun to send, or has
// to take: it may stand still for the patience, and each byte buys the time that
// it takes at the rate, up to the patience again. So a byte now and then does
// not keep a frame, and what is held for it, for ever.
type MinRate struct {
	patience time.Duration
	rate     int64     // bytes per second
	end      time.Time // when the patience ends; zero: nothing is owed
	paused   time.Time // since when the clock stands still; zero: it runs
}

// NewMinRate returns a MinRate of rate bytes per second, at least 1.
func NewMinRate(patience time.Duration, rate int64) MinRate {
	return MinRate{patience: patience, rate: max(rate, 1)}
}

// Until returns when the peer has been too slow; the clock starts when nothing
// was owed before, and goes on when it was paused.
func (m *MinRate) Until(now time.Time) time.Time {
	switch {
	case m.end.IsZero():
		m.end = now.Add(m.patience)
	case !m.paused.IsZero():
		m.move(2*now.Sub(m.paused), now) // it did not run, and as much is given back
		m.paused = time.Time{}
	}
	return m.end
}

// Earn counts n bytes, if the clock runs.
func (m *MinRate) Earn(n int) {
	if n <= 0 || m.end.IsZero() {
		return
	}
	m.move(time.Duration(n)*time.Second/time.Duration(m.rate), time.Now())
}

func (m *MinRate) move(d time.Duration, now time.Time) {
	m.end = m.end.Add(d)
	if most := now.Add(m.patience); m.end.After(most) {
		m.end = most
	}
}

// Pause stops the clock until the next Until. What is left of the patience is
// kept, and grows by the time that passes: a peer does not get the whole anew
// for each small thing that it takes.
func (m *MinRate) Pause(now time.Time) { m.paused = now }

// Rest stops the clock: the peer owes nothing, and has its whole patience
// before it.
func (m *MinRate) Rest() { m.end, m.paused = time.Time{}, time.Time{} }

// rearm is the part of the patience at the end of which a deadline is set anew,
// so that none passes while bytes come in: yamux may lose the window update of
// bytes that it hands out then.
const rearm = 8

// stale reports whether a deadline that is set must be set again to wait until
// end. To set one costs a timer: one that comes too early is left, and the wait
// begins again when it has passed.
func (m *MinRate) stale(set, end, now time.Time) bool {
	return set.After(end) || set.Sub(now) < m.patience/rearm
}
