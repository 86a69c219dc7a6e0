package deadline

import (
	"errors"
	"time"
)

// ErrPassed reports that the peer was too slow.
var ErrPassed = errors.New("deadline passed")

// expired reports whether err means that the deadline set has passed. A timeout before set has another cause: a
// connection whose transport has timed out returns such an error from every call. yamux's timeout is not
// os.ErrDeadlineExceeded.
func expired(err error, set, now time.Time) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout() && set.Sub(now) < fuzz
}

// fuzz is the longest time by which a transport may report too early that a deadline has passed.
const fuzz = time.Millisecond

// MinRate computes how long a peer may take for a frame. The peer may pause for the
// patience, and each byte extends the deadline by the time that a byte takes at the
// rate, but never beyond the patience from now. So a peer that sends a byte now and
// then cannot keep the memory of a frame for ever. Its methods are not safe for
// concurrent use.
type MinRate struct {
	patience time.Duration
	rate     int64     // bytes per second
	end      time.Time // the deadline; zero: the clock has not started
	paused   time.Time // when the clock was paused; zero: it runs
}

// NewMinRate returns a MinRate of rate bytes per second. A rate below 1 is 1.
func NewMinRate(patience time.Duration, rate int64) MinRate {
	return MinRate{patience: patience, rate: max(rate, 1)}
}

// Until returns the deadline. It starts the clock after Rest, and lets it go on after
// Pause.
func (m *MinRate) Until(now time.Time) time.Time {
	switch {
	case m.end.IsZero():
		m.end = now.Add(m.patience)
	case !m.paused.IsZero():
		m.move(2*now.Sub(m.paused), now) // once for the time of the pause, and once more as a bonus
		m.paused = time.Time{}
	}
	return m.end
}

// Earn extends the deadline for n bytes, if the clock has started.
func (m *MinRate) Earn(n int) {
	if n <= 0 || m.end.IsZero() {
		return
	}
	m.move(time.Duration(n)*time.Second/time.Duration(m.rate), time.Now())
}

// move extends the deadline by d, at most to the patience from now.
func (m *MinRate) move(d time.Duration, now time.Time) {
	m.end = m.end.Add(d)
	if most := now.Add(m.patience); m.end.After(most) {
		m.end = most
	}
}

// Pause stops the clock until the next Until. The rest of the patience grows by the
// length of the pause. Unlike Rest, Pause does not give a peer its whole patience again
// for each small write.
func (m *MinRate) Pause(now time.Time) { m.paused = now }

// Rest stops the clock. The next Until gives the peer its whole patience.
func (m *MinRate) Rest() { m.end, m.paused = time.Time{}, time.Time{} }

// rearm determines when a deadline is set again: when less than 1/rearm of the patience is left. So it does not pass
// while bytes arrive. yamux may lose the window update for bytes that it returns after the deadline.
const rearm = 8

// stale reports whether the deadline set must be replaced in order to wait until end.
// Setting a deadline costs a timer. So one that is too early may stay; when it has
// passed, the caller waits again.
func (m *MinRate) stale(set, end, now time.Time) bool {
	return set.After(end) || set.Sub(now) < m.patience/rearm
}
