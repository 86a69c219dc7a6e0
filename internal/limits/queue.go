package limits

import (
	"context"
	"sync"
	"time"
)

// Queue is a bounded channel with many producers and any number of consumers.
// It is never closed: consumers stop by their own context.
type Queue[T any] struct {
	m  *meter
	ch chan T

	mu      sync.Mutex // guards members; lock: leaf
	members []*Queue[T]
}

// NewQueue returns a queue for capacity items (≥ 1), or a family of such queues. Refusals of a family
// are those of all its queues together, and current and peak are those of the longest.
func NewQueue[T any](r *Registry, s Spec, capacity int) *Queue[T] {
	q := &Queue[T]{ch: make(chan T, capacity)} // bound: capacity, by the caller
	q.m = r.add(s, KindQueue, int64(capacity), q.longest)
	return q
}

// Member returns a new empty queue of the family, which lives as long. The caller bounds their
// number. The wait that refusals estimate follows from how fast all queues of the family drain.
func (q *Queue[T]) Member() *Queue[T] {
	own := &Queue[T]{m: q.m, ch: make(chan T, cap(q.ch))} // bound: capacity, by the caller
	q.mu.Lock()
	defer q.mu.Unlock()
	q.members = append(q.members, own)
	return own
}

// longest returns how many items wait in the longest queue.
func (q *Queue[T]) longest() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := q.Len()
	for _, o := range q.members {
		most = max(most, o.Len())
	}
	return int64(most)
}

// TryPut adds v, or returns status.Busy if the queue is full.
func (q *Queue[T]) TryPut(v T) error {
	select {
	case q.ch <- v:
		q.raise()
		return nil
	default:
		return q.m.refuse(int64(len(q.ch)))
	}
}

// Put adds v. While the queue is full it waits at most d, and then returns
// status.Busy. It returns ctx's error if ctx ends first.
func (q *Queue[T]) Put(ctx context.Context, v T, d time.Duration) error {
	select {
	case q.ch <- v:
		q.raise()
		return nil
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case q.ch <- v:
		q.raise()
		return nil
	case <-t.C:
		return q.m.refuse(int64(len(q.ch)))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get waits for the oldest item and removes it. It returns ctx's error if ctx ends
// first.
func (q *Queue[T]) Get(ctx context.Context) (T, error) {
	select {
	case v := <-q.ch:
		q.m.drain.done(1, clock())
		return v, nil
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// TryGet removes and returns the oldest item, if there is one.
func (q *Queue[T]) TryGet() (T, bool) {
	select {
	case v := <-q.ch:
		q.m.drain.done(1, clock())
		return v, true
	default:
		var zero T
		return zero, false
	}
}

// Len returns the number of items waiting.
func (q *Queue[T]) Len() int { return len(q.ch) }

// raise raises the peak to the present length, after an item was added.
func (q *Queue[T]) raise() {
	n := int64(len(q.ch))
	if n == 1 && q.m.inUse() <= 1 {
		q.m.begin()
	}
	q.m.raise(n)
}
