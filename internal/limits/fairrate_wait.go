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
	granted chan struct{} // closed when it has the token
	most    time.Duration // the longest wait
	done    bool          // it has the token; guarded by the FairRate's mu
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
	case <-w.granted:
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
	switch {
	case ok:
		return a, nil, nil
	case wait == 0:
		return nil, nil, s.each.m.reject(status.Busy, used, a.drain.wait(1))
	case (1+float64(a.line.Len())-s.tokens)/s.c.PerSecond > s.c.Wait.Seconds(), a.line.Len() >= a.places(now):
		a.refused = now
		return nil, nil, s.rate.reject(status.RateLimit, s.rate.cap(), wait.Round(time.Millisecond))
	}
	w = &rateWaiter{granted: make(chan struct{}), most: s.c.Wait}
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
	s := a.of
	if now.Sub(a.refused) > activeFor {
		return math.MaxInt
	}
	return max(1, int(s.shareRate()*s.c.Wait.Seconds()/briefPer))
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
	a.remove(w)
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
		close(w.granted)
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
