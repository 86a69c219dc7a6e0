package reload

import (
	"context"
	"sync"

	"allium/protocols/status"
)

// lifetime says when reloads may begin, and waits for their end.
type lifetime struct {
	started  chan struct{} // closed: reloads may begin
	draining chan struct{} // closed: none begins or changes anything
	start    func()
	drain    func()

	mu    sync.Mutex // guards ended, and work.Add against work.Wait; lock: leaf
	ended bool
	work  sync.WaitGroup // reloads and tasks
}

func newLifetime() *lifetime {
	l := &lifetime{started: make(chan struct{}), draining: make(chan struct{})}
	l.start = sync.OnceFunc(func() { close(l.started) })
	l.drain = sync.OnceFunc(func() { close(l.draining) })
	return l
}

var errDraining = status.Errorf(status.Draining, "the node is shutting down, and its configuration stays as it is")

// await waits for the start.
func (l *lifetime) await(ctx context.Context) error {
	select {
	case <-l.started:
		return nil
	case <-l.draining:
		return errDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter begins a reload, which ends with work.Done.
func (l *lifetime) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.drains() {
		return errDraining
	}
	l.work.Add(1)
	return nil
}

func (l *lifetime) drains() bool {
	select {
	case <-l.draining:
		return true
	default:
		return false
	}
}

// untilDrain returns a context with the values of ctx that ends when the node drains. A reload in progress calls it.
func (l *lifetime) untilDrain(ctx context.Context) (_ context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l.work.Go(func() {
		select {
		case <-l.draining:
			cancel(errDraining)
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil) }
}

// end lets no reload begin any more, and waits for those that have begun.
func (l *lifetime) end() {
	l.drain()
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.work.Wait()
}
