package limits

import (
	"context"
	"sync"
)

// FairQueue is a bounded queue that is fair between keys, such as peers. Each key has its own queue. The key that runs
// the fewest items is served next; keys that run equally many take turns. A key may start another item only while it
// runs fewer items than there are idle workers, so one key never takes all workers.
//
// When the queue is full, the newest item of the longest key's queue is shed for the
// item of a key whose queue would still be shorter. Otherwise the new item is
// refused. So one key can fill the queue, but cannot keep other keys out.
type FairQueue[K comparable, T any] struct {
	m *meter

	mu       sync.Mutex // guards what follows; lock: breaker, before FairGate.mu
	schedule *schedule[K, queued[T]]
	idle     []*getter[T] // the calls that wait in Get; the last, whose caches are warmest, is served first
	spare    []*getter[T] // for reuse; as many as ever waited at once, at most
}

// queued is an item, and its place if it has one.
type queued[T any] struct {
	item  T
	place place // or nil
}

// getter is a call of Get that waits.
type getter[T any] struct{ item chan T } // capacity 1, so that handing over never blocks

// Shed is an item that was removed in favour of another. The caller of TryPut
// answers its owner with Err, which is status.Busy with the estimated wait.
type Shed[T any] struct {
	Item T
	Err  error
}

// NewFairQueue returns a queue for capacity items (≥ 1) waiting, of all keys together. At most workers (≥ 1) items run
// at once. An item runs between its Get and its Done.
func NewFairQueue[K comparable, T any](r *Registry, s Spec, capacity, workers int) *FairQueue[K, T] {
	q := &FairQueue[K, T]{schedule: newSchedule[K, queued[T]](capacity, workers)}
	q.m = r.add(s, KindQueue, int64(capacity), func() int64 { return int64(q.Len()) })
	return q
}

// ResizeWorkers lets at most n items (≥ 1) run from now on. Those that run beyond n go on.
func (q *FairQueue[K, T]) ResizeWorkers(n int) {
	q.mu.Lock()
	q.schedule.workers = n
	q.mu.Unlock()
	q.handOver()
}

// TryPut adds an item to the queue of k. If the whole queue is full, it either
// refuses the item with status.Busy, or sheds another item and returns it. The
// caller answers the owner of the shed item.
func (q *FairQueue[K, T]) TryPut(k K, v T) (*Shed[T], error) { return q.tryPut(k, queued[T]{item: v}) }

// TryPutAt is TryPut of an item that takes the place p. It returns status.Quota if
// the key of p may take no more places. A shed item gives its place back before
// the new one takes p. The worker that got the item calls Leave of p before Done.
func (q *FairQueue[K, T]) TryPutAt(k K, v T, p place) (*Shed[T], error) {
	return q.tryPut(k, queued[T]{v, p})
}

func (q *FairQueue[K, T]) tryPut(k K, v queued[T]) (*Shed[T], error) {
	shed, waiting, why := q.put(k, v)
	switch why {
	case noPlace:
		return nil, v.place.refuse()
	case full:
		return nil, q.m.refuse(waiting)
	}
	if waiting == 1 {
		q.m.begin()
	}
	q.m.raise(waiting)
	q.handOver()
	if shed != nil {
		shed.Err = q.m.refuse(waiting)
	}
	return shed, nil
}

// refusal is the reason for which put refuses an item.
type refusal int

const (
	accepted refusal = iota
	noPlace          // the key of its place may take no more places
	full             // the queue is full
)

// put adds v to the queue of k, or returns why not. It returns the item that it
// shed, if any, and how many items wait afterwards.
func (q *FairQueue[K, T]) put(k K, v queued[T]) (shed *Shed[T], waiting int64, why refusal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if v.place != nil && v.place.over() {
		return nil, int64(q.schedule.waiting), noPlace
	}
	if q.schedule.full() {
		if !q.schedule.shorter(k) {
			return nil, int64(q.schedule.waiting), full
		}
		old := q.schedule.shed()
		if old.place != nil {
			old.place.Leave()
		}
		shed = &Shed[T]{Item: old.item}
	}
	q.schedule.put(k, v)
	if v.place != nil {
		v.place.take()
	}
	return shed, int64(q.schedule.waiting), accepted
}

// Get waits for the next item that may run. The caller calls Done when the item has
// run. Get returns ctx's error if ctx ends first.
func (q *FairQueue[K, T]) Get(ctx context.Context) (T, error) {
	v, g := q.next()
	if g == nil {
		q.m.drain.done(1, clock())
		return v, nil
	}
	select {
	case v = <-g.item:
	case <-ctx.Done():
		if q.leave(g) {
			return v, ctx.Err()
		}
		v = <-g.item // it was handed over at the same time
	}
	q.recycle(g)
	return v, nil
}

// next returns an item that may run, or else a getter that it has added to idle.
func (q *FairQueue[K, T]) next() (v T, g *getter[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if next, ok := q.schedule.get(); ok {
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

// leave removes a getter from idle. It returns false if it is not there any more.
func (q *FairQueue[K, T]) leave(g *getter[T]) bool {
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

// recycle makes g a spare getter.
func (q *FairQueue[K, T]) recycle(g *getter[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = append(q.spare, g)
}

// Done notes that an item of k, which Get returned, does not run any more.
func (q *FairQueue[K, T]) Done(k K) {
	q.mu.Lock()
	q.schedule.done(k)
	q.mu.Unlock()
	q.handOver()
}

// handOver gives the items that may run to the calls that wait in Get.
func (q *FairQueue[K, T]) handOver() {
	for {
		g, v, ok := q.pair()
		if !ok {
			return
		}
		g.item <- v
		q.m.drain.done(1, clock())
	}
}

// pair removes a waiting getter and the item that it gets, if there are both.
func (q *FairQueue[K, T]) pair() (g *getter[T], v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.idle)
	if n == 0 {
		return nil, v, false
	}
	next, ok := q.schedule.get()
	if !ok {
		return nil, v, false
	}
	g, q.idle = q.idle[n-1], q.idle[:n-1]
	return g, next.item, true
}

// Len returns the number of items waiting, of all keys together.
func (q *FairQueue[K, T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedule.waiting
}
