package publish

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/limits"
)

// keptIfFailed is the time for which a result that an error made incomplete stays valid.
const keptIfFailed = time.Minute

// kept is a result that one goroutine makes for all who wait for it, and that holds until something changes, or for
// keptIfFailed if it is not complete. Its methods are safe for concurrent use.
type kept[T any] struct {
	changes atomic.Uint64
	wake    chan struct{}

	mu    sync.Mutex // lock: leaf
	value T
	as    uint64        // the changes that value knows of
	ends  time.Time     // when value ends to hold; zero: with a change
	next  chan struct{} // closed when there is another value
}

func newKept[T any]() *kept[T] {
	k := &kept[T]{wake: make(chan struct{}, 1), next: make(chan struct{})} // bound: 1, one wake is enough
	k.changed()                                                            // there is no value yet
	return k
}

// changed ends the validity of the value.
func (k *kept[T]) changed() { k.changes.Add(1) }

// get returns a value that knows of all changes before the call. It waits for one until ctx ends.
func (k *kept[T]) get(ctx context.Context) (T, error) {
	k.mu.Lock()
	if !k.ends.IsZero() && time.Now().After(k.ends) {
		k.ends = time.Time{}
		k.changed()
	}
	k.mu.Unlock()
	want := k.changes.Load()
	for {
		k.mu.Lock()
		value, as, next := k.value, k.as, k.next
		k.mu.Unlock()
		if as >= want {
			return value, nil
		}
		select {
		case k.wake <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-ctx.Done():
			return value, ctx.Err()
		}
	}
}

// run makes a value whenever get waits for one, until ctx ends. After each it rests as long as that took, so that
// changes and those who ask cost half of a core at most. value says whether its result is complete.
func (k *kept[T]) run(ctx context.Context, value func(context.Context) (T, bool)) {
	for {
		select {
		case <-k.wake:
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		if !k.renew(ctx, value) || limits.Sleep(ctx, time.Since(begun)) != nil {
			return
		}
	}
}

// renew makes a value, unless the one that there is knows of all changes. It returns false when ctx has ended.
func (k *kept[T]) renew(ctx context.Context, value func(context.Context) (T, bool)) bool {
	as := k.changes.Load()
	k.mu.Lock()
	fresh := k.as == as
	k.mu.Unlock()
	if fresh {
		return true
	}
	v, complete := value(ctx)
	if ctx.Err() != nil {
		return false // the value may not be complete
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value, k.as, k.ends = v, as, time.Time{}
	if !complete {
		k.ends = time.Now().Add(keptIfFailed)
	}
	close(k.next)
	k.next = make(chan struct{})
	return true
}
