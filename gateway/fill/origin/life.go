package origin

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Life ends all that runs within it at once, with one cause. A nil *Life never ends. Its methods may be called from any
// goroutine.
type Life struct {
	mu     sync.Mutex // guards what follows; lock: leaf
	cause  error      // why it has ended; nil: it has not
	within map[int]context.CancelCauseFunc
	next   int
}

// NewLife returns a Life that has not ended.
func NewLife() *Life { return &Life{within: map[int]context.CancelCauseFunc{}} }

// Within returns ctx, which ends also when the life does, with its cause. The caller calls end.
func (l *Life) Within(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if l == nil {
		return ctx, func() { cancel(nil) }
	}
	key, cause := l.enter(cancel)
	if cause != nil {
		cancel(cause)
	}
	return ctx, func() {
		l.leave(key)
		cancel(nil)
	}
}

// enter registers a context that End cancels. If the life has ended, it returns the cause.
func (l *Life) enter(cancel context.CancelCauseFunc) (key int, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return 0, l.cause
	}
	l.next++
	l.within[l.next] = cancel
	return l.next, nil
}

func (l *Life) leave(key int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.within, key)
}

// End ends the life with a cause, which is not nil. All contexts within it have ended when End returns.
func (l *Life) End(cause error) {
	for _, cancel := range l.end(cause) {
		cancel(cause)
	}
}

func (l *Life) end(cause error) []context.CancelCauseFunc {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = cause
	return slices.Collect(maps.Values(l.within))
}

// Err returns the cause with which the life has ended, or nil if it has not.
func (l *Life) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}
