package watch

import (
	"time"

	"allium/internal/jitter"
)

// Timing says when work begins.
type Timing struct {
	Quiet  time.Duration // without a change before work begins
	Latest time.Duration // after the first change work begins, also if changes go on
	Gap    time.Duration // between the end of work that succeeded, and had something to do, and the next
	Retry  time.Duration // after work that failed; twice as long after each further failure in a row
	Slow   time.Duration // the longest wait after a failure
}

// schedule decides when work begins. It has no clock: the caller says what time it is.
type schedule struct {
	Timing

	first, last time.Time // changes that no work has taken up; zero: there are none
	running     bool
	notBefore   time.Time // by Gap, or after a failure
	failures    int       // in a row
}

// changed notes that something changed.
func (s *schedule) changed(now time.Time) {
	if s.first.IsZero() {
		s.first = now
	}
	s.last = now
}

// begin takes up all changes.
func (s *schedule) begin() {
	s.first, s.last, s.running = time.Time{}, time.Time{}, true
}

// end ends the work. Failed work is tried again after a while.
func (s *schedule) end(now time.Time, worked, failed bool) {
	s.running = false
	if !failed {
		s.failures = 0
		if worked {
			s.notBefore = now.Add(s.Gap)
		}
		return
	}
	wait := min(s.Retry<<min(s.failures, 16), s.Slow)
	s.failures++
	s.notBefore = now.Add(jitter.Spread(wait))
	s.changed(now)
}

// postpone ends work that is to be done at a later time.
func (s *schedule) postpone(now, until time.Time) {
	s.running, s.failures, s.notBefore = false, 0, until
	s.changed(now)
}

// next returns when work begins. ok is false while it runs, or if there is nothing to do.
func (s *schedule) next() (at time.Time, ok bool) {
	if s.running || s.first.IsZero() {
		return at, false
	}
	at = s.last.Add(s.Quiet)
	if latest := s.first.Add(s.Latest); latest.Before(at) {
		at = latest
	}
	if at.Before(s.notBefore) {
		at = s.notBefore
	}
	return at, true
}
