package timed

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

// Pace bounds how long a peer may take over what it has begun to send, or has
// to take: it may stand still for the patience, and each byte buys the time that
// it takes at the rate, up to the patience again. So a byte now and then does
// not keep a frame, and what is held for it, for ever.
type Pace struct {
	patience time.Duration
	rate     int64     // bytes per second
	end      time.Time // when the patience ends; zero: nothing is owed
	paused   time.Time // since when the clock stands still; zero: it runs
}

// NewPace returns a pace of so many bytes per second, at least 1.
func NewPace(patience time.Duration, rate int64) Pace {
	return Pace{patience: patience, rate: max(rate, 1)}
}

// Until returns when the peer has been too slow; the clock starts when nothing
// was owed before, and goes on when it was paused.
func (p *Pace) Until(now time.Time) time.Time {
	switch {
	case p.end.IsZero():
		p.end = now.Add(p.patience)
	case !p.paused.IsZero():
		p.move(2*now.Sub(p.paused), now) // it did not run, and as much is given back
		p.paused = time.Time{}
	}
	return p.end
}

// Earn counts n bytes, if the clock runs.
func (p *Pace) Earn(n int) {
	if n <= 0 || p.end.IsZero() {
		return
	}
	p.move(time.Duration(n)*time.Second/time.Duration(p.rate), time.Now())
}

func (p *Pace) move(d time.Duration, now time.Time) {
	p.end = p.end.Add(d)
	if most := now.Add(p.patience); p.end.After(most) {
		p.end = most
	}
}

// Pause stops the clock until the next Until. What is left of the patience is
// kept, and grows by the time that passes: a peer does not get the whole anew
// for each small thing that it takes.
func (p *Pace) Pause(now time.Time) { p.paused = now }

// Rest stops the clock: the peer owes nothing, and has its whole patience
// before it.
func (p *Pace) Rest() { p.end, p.paused = time.Time{}, time.Time{} }

// rearm is the part of the patience at the end of which a deadline is set anew,
// so that none passes while bytes come in: yamux may lose the window update of
// bytes that it hands out then.
const rearm = 8

// stale reports whether a deadline that is set must be set again to wait until
// end. To set one costs a timer: one that comes too early is left, and the wait
// begins again when it has passed.
func (p *Pace) stale(set, end, now time.Time) bool {
	return set.After(end) || set.Sub(now) < p.patience/rearm
}
