package limits

import (
	"context"
	"sync"
	"time"
)

// Lanes is a bounded queue that is fair between keys: each has a lane of its
// own, who runs fewest is served next, in turn, and a lane runs one more only
// while it runs fewer items than there are idle workers, so one key never takes
// them all. When the queue is full, the newest item of the longest lane makes
// room for a key whose lane would still be shorter with its item; otherwise the
// item is refused. So one key can fill the queue, but keep nobody out.
type Lanes[K comparable, T any] struct {
	m *meter

	mu    sync.Mutex // only the schedule changes under it
	rota  *rota[K, queued[T]]
	idle  []*getter[T] // waiting in Get, the last one next: it is the warmest
	spare []*getter[T] // as many as ever waited at once
}

// queued is an item and the place that it holds; nil: none.
type queued[T any] struct {
	item  T
	place place
}

// getter is a Get that waits.
type getter[T any] struct{ item chan T } // capacity 1: who hands over never waits

// Shed is an item that had to make room. Its owner answers with Err, which is
// status.Busy with the estimated wait.
type Shed[T any] struct {
	Item T
	Err  error
}

// NewLanes returns lanes for capacity items (≥ 1) waiting in all, and as many
// workers (≥ 1) that Get them, each of one item at a time.
func NewLanes[K comparable, T any](r *Registry, s Spec, capacity, workers int) *Lanes[K, T] {
	q := &Lanes[K, T]{rota: newRota[K, queued[T]](capacity, workers)}
	q.m = r.add(s, KindQueue, int64(capacity), func() int64 { return int64(q.Len()) })
	return q
}

// TryPut adds an item to the lane of k. When the queue is full, either it is
// refused with status.Busy or another item makes room, which the caller
// answers: none is lost.
func (q *Lanes[K, T]) TryPut(k K, v T) (*Shed[T], error) { return q.tryPut(k, queued[T]{item: v}) }

// TryPutAt is TryPut of an item that takes a place. It returns status.Quota when
// the key of the place has its part. The item that makes room gives its place
// back before the new one takes its own. Otherwise the caller calls Leave before
// Done.
func (q *Lanes[K, T]) TryPutAt(k K, v T, p place) (*Shed[T], error) {
	return q.tryPut(k, queued[T]{v, p})
}

func (q *Lanes[K, T]) tryPut(k K, v queued[T]) (*Shed[T], error) {
	shed, waiting, why := q.put(k, v)
	switch why {
	case overPart:
		return nil, v.place.refuse()
	case noRoom:
		return nil, q.m.refuse(waiting)
	}
	q.m.raise(waiting)
	q.handOver()
	if shed != nil {
		shed.Err = q.m.refuse(waiting)
	}
	return shed, nil
}

// refusal is why an item is not put in the queue.
type refusal int

const (
	accepted refusal = iota
	overPart         // the key of its place has its part
	noRoom           // the queue is full
)

// put returns what it shed and how many wait afterwards, or why v is not among
// them.
func (q *Lanes[K, T]) put(k K, v queued[T]) (shed *Shed[T], waiting int64, why refusal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if v.place != nil && v.place.over() {
		return nil, int64(q.rota.waiting), overPart
	}
	if q.rota.full() {
		if !q.rota.shorter(k) {
			return nil, int64(q.rota.waiting), noRoom
		}
		old := q.rota.shed()
		if old.place != nil {
			old.place.Leave()
		}
		shed = &Shed[T]{Item: old.item}
	}
	q.rota.put(k, v)
	if v.place != nil {
		v.place.take()
	}
	return shed, int64(q.rota.waiting), accepted
}

// Get waits for the next item that may run; Done ends what it began. It returns ctx's error
// when ctx ends first.
func (q *Lanes[K, T]) Get(ctx context.Context) (T, error) {
	v, g := q.next()
	if g == nil {
		q.m.drain.done(1, time.Now())
		return v, nil
	}
	select {
	case v = <-g.item:
	case <-ctx.Done():
		if q.leave(g) {
			return v, ctx.Err()
		}
		v = <-g.item // handed over already
	}
	q.recycle(g)
	return v, nil
}

// next returns an item, or the getter that waits for one.
func (q *Lanes[K, T]) next() (v T, g *getter[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if next, ok := q.rota.get(); ok {
		return next.item, nil
	}
	if n := len(q.spare); n > 0 {
		g, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		g = &getter[T]{item: make(chan T, 1)}
	}
	q.idle = append(q.idle, g)
	return v, g
}

// leave takes a getter out of the line; false: it is not in it any more.
func (q *Lanes[K, T]) leave(g *getter[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, o := range q.idle {
		if o == g {
			q.idle = append(q.idle[:i], q.idle[i+1:]...)
			q.spare = append(q.spare, g)
			return true
		}
	}
	return false
}

func (q *Lanes[K, T]) recycle(g *getter[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = append(q.spare, g)
}

// Done says that an item of the lane of k, which Get returned, runs no more.
func (q *Lanes[K, T]) Done(k K) {
	q.mu.Lock()
	q.rota.done(k)
	q.mu.Unlock()
	q.handOver()
}

// handOver gives what may be served to those who wait for it.
func (q *Lanes[K, T]) handOver() {
	for {
		g, v, ok := q.pair()
		if !ok {
			return
		}
		g.item <- v
		q.m.drain.done(1, time.Now())
	}
}

func (q *Lanes[K, T]) pair() (g *getter[T], v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.idle)
	if n == 0 {
		return nil, v, false
	}
	next, ok := q.rota.get()
	if !ok {
		return nil, v, false
	}
	g, q.idle = q.idle[n-1], q.idle[:n-1]
	return g, next.item, true
}

// Len is the number of items waiting.
func (q *Lanes[K, T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rota.waiting
}
