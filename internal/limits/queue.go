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

// NewQueue returns a queue of that capacity (≥ 1 items).
func NewQueue[T any](r *Registry, s Spec, capacity int) *Queue[T] {
	q := &Queue[T]{ch: make(chan T, capacity)} // bound: capacity, by the caller
	q.m = r.add(s, KindQueue, int64(capacity), func() int64 { return int64(len(q.ch)) })
	return q
}

// QueueFamily is a set of queues under one limit, one for each writer. It
// counts refusals together; current and peak are those of the deepest queue,
// and the capacity is that of each. A queue lives as long as its family: the
// caller bounds their number and hands none back.
type QueueFamily[T any] struct {
	m        *meter
	capacity int

	mu     sync.Mutex
	queues []*Queue[T]
}

// NewQueueFamily describes queues of that capacity (≥ 1 items) each.
func NewQueueFamily[T any](r *Registry, s Spec, capacity int) *QueueFamily[T] {
	f := &QueueFamily[T]{capacity: capacity}
	f.m = r.add(s, KindQueue, int64(capacity), f.deepest)
	return f
}

// Queue returns a new empty queue that counts under the family. Its
// retry_after hint rests on the drain rate of the whole family.
func (f *QueueFamily[T]) Queue() *Queue[T] {
	q := &Queue[T]{m: f.m, ch: make(chan T, f.capacity)} // bound: capacity, by the caller
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues = append(f.queues, q)
	return q
}

func (f *QueueFamily[T]) deepest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := 0
	for _, q := range f.queues {
		most = max(most, q.Len())
	}
	return int64(most)
}

// TryPut adds v, or returns status.Busy when the queue is full.
func (q *Queue[T]) TryPut(v T) error {
	select {
	case q.ch <- v:
		q.raise()
		return nil
	default:
		return q.m.refuse(int64(len(q.ch)))
	}
}

// Put adds v, waiting at most d for room; then status.Busy. It returns ctx's
// error when ctx ends first.
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

// PutDropOldest adds v and drops the oldest items while there is no room; it
// returns how many it dropped.
func (q *Queue[T]) PutDropOldest(v T) (dropped int) {
	for {
		select {
		case q.ch <- v:
			q.raise()
			return dropped
		default:
		}
		select {
		case <-q.ch:
			q.m.rejected.Add(1)
			dropped++
		default:
		}
	}
}

// Get waits for an item. It returns ctx's error when ctx ends first.
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

// TryGet returns the next item if there is one.
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

// Len is the number of items waiting.
func (q *Queue[T]) Len() int { return len(q.ch) }

func (q *Queue[T]) raise() { q.m.raise(int64(len(q.ch))) }
