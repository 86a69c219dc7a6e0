package limits

import (
	"context"
	"sync"

	"allium/protocols/status"
)

// Subscription is a subscriber's queue of [Events].
//
// Invariant: the events that Next returned, those it reported as lost and those that
// wait are together the events that were published since Subscribe, each once.
type Subscription[T any] struct {
	e      *Events[T]
	topics []*Topic[T]
	wake   chan struct{} // gets a token when the queue is not empty any more, and at the end

	mu     sync.Mutex     // guards what follows; lock: leaf
	queue  []published[T] // a ring
	first  int            // index of the oldest event in queue
	n      int            // events that wait
	lost   int64          // events dropped since the last that Next returned
	end    error          // what Next returns when the queue is empty; nil: it waits
	closed bool           // Close was called
}

// published is an event in a queue.
type published[T any] struct {
	topic *Topic[T]
	v     T
}

// errUnsubscribed is the error of Next after Close.
var errUnsubscribed = status.Errorf(status.Canceled, "the subscription to events was closed")

// Next waits for the next event and removes it from the queue. lagged is how many
// events were dropped before it because the queue was full. After the last event of
// closed Events, Next returns the error of [Events.Close]. It returns ctx's error if
// ctx ends while no event waits. One goroutine at a time calls Next.
func (s *Subscription[T]) Next(ctx context.Context) (v T, lagged int64, err error) {
	for {
		v, lagged, ok, err := s.take()
		if ok || err != nil {
			return v, lagged, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return v, 0, ctx.Err()
		}
	}
}

// take removes the oldest event. ok is false if none waits.
func (s *Subscription[T]) take() (v T, lagged int64, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return v, 0, false, s.end
	}
	v, lagged = s.pop().v, s.lost
	s.lost = 0
	return v, lagged, true, nil
}

// pop removes the oldest event of a queue that is not empty. The caller holds mu.
func (s *Subscription[T]) pop() published[T] {
	p := s.queue[s.first]
	s.queue[s.first] = published[T]{}
	s.first = (s.first + 1) % len(s.queue)
	s.n--
	return p
}

// put adds an event, and drops the oldest if the queue is full.
func (s *Subscription[T]) put(p published[T]) {
	dropped, waiting := s.push(p)
	if dropped != nil {
		dropped.loss.n.Add(1)
		s.e.m.rejected.Add(1)
		s.e.lost.Add(1)
	}
	s.e.m.raise(int64(waiting))
	if waiting == 1 { // with more events a token was put before, or Next need not wait
		s.notify()
	}
}

// push is put for the queue alone. It returns the topic of the event that it dropped,
// or nil, and how many events wait now. It does nothing after the end.
func (s *Subscription[T]) push(p published[T]) (dropped *Topic[T], waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return nil, 0
	}
	if s.n == len(s.queue) {
		dropped = s.pop().topic
		s.lost++
	}
	s.queue[(s.first+s.n)%len(s.queue)] = p
	s.n++
	return dropped, s.n
}

// notify lets Next look again.
func (s *Subscription[T]) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // a token is there
	}
}

// finish makes Next return err once the queue is empty.
func (s *Subscription[T]) finish(err error) {
	s.mu.Lock()
	if s.end == nil {
		s.end = err
	}
	s.mu.Unlock()
	s.notify()
}

// Len returns how many events wait.
func (s *Subscription[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// Close ends the subscription and drops what waits. It is idempotent.
func (s *Subscription[T]) Close() {
	if !s.discard() {
		return
	}
	s.notify()
	s.e.remove(s)
	s.e.gate.Leave()
}

// discard empties the queue for good. It returns false if it was called before.
func (s *Subscription[T]) discard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.closed, s.end = true, errUnsubscribed
	s.queue, s.n, s.lost = nil, 0, 0
	return true
}
