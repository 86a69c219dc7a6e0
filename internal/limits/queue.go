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
}

// NewQueue returns a queue for capacity items (≥ 1).
func NewQueue[T any](r *Registry, s Spec, capacity int) *Queue[T] {
	q := &Queue[T]{ch: make(chan T, capacity)} // bound: capacity, by the caller
	q.m = r.add(s, KindQueue, int64(capacity), func() int64 { return int64(len(q.ch)) })
	return q
}

// QueueFamily is a set of queues under one limit, one for each writer. Refusals
// are those of all queues together, current and peak are those of the longest
// queue, and the capacity is that of each queue. A queue lives as long as its
// family. The caller bounds the number of queues.
type QueueFamily[T any] struct {
	m        *meter
	capacity int

	mu     sync.Mutex // guards queues; lock: leaf
	queues []*Queue[T]
}

// NewQueueFamily lists a limit for queues of capacity items (≥ 1) each.
func NewQueueFamily[T any](r *Registry, s Spec, capacity int) *QueueFamily[T] {
	f := &QueueFamily[T]{capacity: capacity}
	f.m = r.add(s, KindQueue, int64(capacity), f.longest)
	return f
}

// Queue returns a new empty queue of the family. The wait that its refusals
// estimate follows from how fast all queues of the family drain.
func (f *QueueFamily[T]) Queue() *Queue[T] {
	q := &Queue[T]{m: f.m, ch: make(chan T, f.capacity)} // bound: capacity, by the caller
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues = append(f.queues, q)
	return q
}

// longest returns how many items wait in the longest queue.
func (f *QueueFamily[T]) longest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := 0
	for _, q := range f.queues {
		most = max(most, q.Len())
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
		q.m.drain.done(1, time.Now())
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
		q.m.drain.done(1, time.Now())
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
