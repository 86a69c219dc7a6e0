package limits

import (
	"context"
	"math"
	"time"

	"allium/internal/linked"
	"allium/protocols/status"
)

// rateWaiter is a request that waits for a token.
type rateWaiter struct {
	decided chan struct{} // closed when it has the token, or gets none
	most    time.Duration // the longest wait
	done    bool          // it has the token; guarded by the FairRate's mu
	refused bool          // it was taken out of the line without one; likewise
	node    linked.Node[rateWaiter]
}

// Await is Enter, except that it waits for a token, at most FairRateConfig.Wait and if
// places has one for k. A request that waits counts as in flight. Await returns
// status.RateLimit if there was no token in time, at once if there cannot be one, and
// ctx's error if ctx ends first.
func (s *FairRate[K]) Await(ctx context.Context, k K, places func() (leave func(), ok bool)) (*Share[K], error) {
	if a, ok := s.Try(k); ok {
		return a, nil
	}
	leave, ok := places()
	if !ok {
		return s.Enter(k)
	}
	defer leave()
	a, w, err := s.queue(k, time.Now())
	if w == nil {
		return a, err
	}
	if err = s.await(ctx, w); err == nil {
		return a, nil
	}
	wait, ok := s.unqueue(a, w)
	if ok && ctx.Err() == nil {
		return a, nil // it got its token at the same time
	}
	if ok {
		a.giveBack()
	}
	a.Leave()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a.refuse()
	return nil, s.rate.reject(status.RateLimit, s.rate.cap(), wait.Round(time.Millisecond))
}

// await waits until w has its token. It returns an error if ctx or the time ends first.
func (s *FairRate[K]) await(ctx context.Context, w *rateWaiter) error {
	ctx, cancel := context.WithTimeout(ctx, w.most)
	defer cancel()
	select {
	case <-w.decided:
		if w.refused {
			return context.Canceled
		}
		return nil
	case <-s.stopped:
		return context.Canceled
	case <-ctx.Done():
		return ctx.Err()
	}
}

// StopWaiting ends all waits in Await, now and later, as if their time were over.
func (s *FairRate[K]) StopWaiting() { s.stop.Do(func() { close(s.stopped) }) }

// queue adds a request of k to its line. It returns no waiter if the request was admitted,
// or refused with an error.
func (s *FairRate[K]) queue(k K, now time.Time) (a *Share[K], w *rateWaiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, used, wait, ok := s.enterLocked(k, now)
	if !ok && wait > 0 {
		a.noteGrowth(now)
	}
	switch {
	case ok:
		return a, nil, nil
	case wait == 0:
		if a.line.Len() > 0 { // for a token they wait too long
			a.refuseAt(now)
		}
		return nil, nil, s.each.reject(status.Busy, used, a.drain.wait(1))
	case (1+float64(a.line.Len())-s.tokens)/s.c.PerSecond > s.c.Wait.Seconds(), a.line.Len() >= a.places(now):
		a.refuseAt(now)
		return nil, nil, s.rate.reject(status.RateLimit, s.rate.cap(), wait.Round(time.Millisecond))
	}
	w = &rateWaiter{decided: make(chan struct{}), most: s.c.Wait}
	if a.line.Len() == 0 {
		s.waiting.Push(&a.inLine, a)
	}
	a.line.Push(&w.node, w)
	a.admit()
	s.serve(now)
	return a, w, nil
}

// places returns how many requests of the key may wait: all, or if one was refused within activeFor those that its
// share of the rate serves within a twentieth of the wait, and one if there are none. Keys that do not wait just now
// count for the share: they are active, and take their tokens first. The caller holds the FairRate's mu.
func (a *Share[K]) places(now time.Time) int {
	if now.Sub(a.refused) > activeFor {
		return math.MaxInt
	}
	return a.brief()
}

// brief returns how many requests the key's share of the rate serves within a twentieth of the wait, and one if there
// are none. The caller holds the FairRate's mu.
func (a *Share[K]) brief() int { return max(1, int(a.of.shareRate()*a.of.c.Wait.Seconds()/briefPer)) }

// lineGrowth tells a line that goes on growing from that of a burst, or of a client that asks again when it is
// answered: the line of either grows once.
type lineGrowth struct {
	at     time.Time // of the last look
	length int       // at the last look
	looks  int       // so many looks in a row found the line longer than the one before
	usual  int       // the longest that a look found while the line did not grow, or that it began with
}

// look notes the length of the line, unless it did so less than every ago.
func (g *lineGrowth) look(length int, now time.Time, every time.Duration) {
	since := now.Sub(g.at)
	if length > 0 && since < every {
		return
	}
	if since > activeFor {
		g.usual = 0 // nothing has waited for a while
	}
	if length > g.length {
		g.looks++
	} else {
		g.looks, g.usual = 0, max(g.usual, length)
	}
	if g.usual == 0 {
		g.usual = length
	}
	g.at, g.length = now, length
}

// goesOn reports whether a line of such a length goes on growing: several looks in a row found it longer, and it is
// twice as long as usual.
func (g *lineGrowth) goesOn(length int) bool { return g.looks >= growsFor && length >= 2*g.usual }

// noteGrowth looks at the line, to which a request is about to be added. The caller holds the FairRate's mu.
func (a *Share[K]) noteGrowth(now time.Time) {
	n := a.line.Len()
	a.growth.look(n, now, a.of.c.Wait/briefPer)
	if n > a.brief() && n > shortLine && a.growth.goesOn(n) {
		a.refuseAt(now)
	}
}

// refuseAt notes that a request of the key was refused for lack of a token. If none was for a while, and the line is
// long, it also refuses those that have waited longest. The caller holds the FairRate's mu.
func (a *Share[K]) refuseAt(now time.Time) {
	first := now.Sub(a.refused) > activeFor
	a.refused = now
	if !first {
		return
	}
	a.of.rate.line.tell()
	most := a.brief()
	if a.line.Len() <= max(shortLine, most) {
		return
	}
	for a.line.Len() > most {
		w := a.line.Oldest()
		w.refused = true
		close(w.decided)
		a.remove(w)
	}
}

// unqueue ends a wait. It returns true if the waiter has got its token, else the time until
// there is one for its key.
func (s *FairRate[K]) unqueue(a *Share[K], w *rateWaiter) (wait time.Duration, granted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.done {
		return 0, true
	}
	s.find(a.key, time.Now())
	if !w.refused {
		a.remove(w)
	}
	return s.missing(a, a.line.Len()), false
}

// remove removes w from the line. The caller holds the FairRate's mu.
func (a *Share[K]) remove(w *rateWaiter) {
	a.line.Remove(&w.node)
	if a.line.Len() == 0 {
		a.of.waiting.Remove(&a.inLine)
	}
}

// serveLate serves those that wait when a token is due.
func (s *FairRate[K]) serveLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve(time.Now())
}

// serve gives tokens to requests that wait, and arranges for the next call. The caller holds
// s.mu.
func (s *FairRate[K]) serve(now time.Time) {
	s.refill(now)
	next := time.Duration(0) // until a token is due for one of the keys that were looked at
	for left := s.waiting.Len(); left > 0 && (s.tokens >= 1 || s.c.PerSecond == 0); left-- {
		a := s.find(s.waiting.Oldest().key, now)
		s.waiting.Remove(&a.inLine)
		s.waiting.Push(&a.inLine, a)
		if !s.take(a) {
			if d := s.missing(a, 0); next == 0 || d < next {
				next = d
			}
			continue
		}
		w := a.line.Oldest()
		w.done = true
		close(w.decided)
		a.remove(w)
		left, next = s.waiting.Len()+1, 0
	}
	if s.waiting.Len() == 0 {
		return
	}
	if s.tokens < 1 {
		next = time.Duration((1 - s.tokens) / s.c.PerSecond * float64(time.Second))
	}
	next = max(next, time.Millisecond)
	if s.timer == nil {
		s.timer = time.AfterFunc(next, s.serveLate)
	} else {
		s.timer.Reset(next)
	}
}
