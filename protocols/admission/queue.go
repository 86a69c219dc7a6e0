package admission

import (
	"context"
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

// TryPut adds v, or returns status.Busy when the queue is full.
func (q *Queue[T]) TryPut(v T) error {
	select {
	case q.ch <- v:
		q.m.raise(q.m.now())
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
		q.m.raise(q.m.now())
		return nil
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case q.ch <- v:
		q.m.raise(q.m.now())
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
			q.m.raise(q.m.now())
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
