// Package admission admits the operations of a store from the moment it is open
// until it is told to stop.
//
// Every operation calls Enter or EnterContext, and Leave when it ends. Enter
// returns ErrNotReady before Open and ErrDraining once Drain has begun. Drain
// returns when the last admitted operation has left, so no operation sees a
// closed backend. Long operations call Alive, or read through Reader, to stop
// early while the store drains.
package admission

import (
	"context"
	"io"
	"sync/atomic"

	"allium/internal/latch"
	"allium/protocols/status"
	"allium/store/meta"
)

// ErrNotReady is returned before Open.
var ErrNotReady = status.Errorf(status.NotReady, "the store is not open yet; try again when the node is ready")

// Control admits operations between Open and Drain. It is safe for concurrent use.
type Control struct {
	opened   atomic.Bool
	inside   latch.Latch
	stopping chan struct{} // closed by Drain
}

// New returns a Control that admits nothing yet.
func New() *Control { return &Control{stopping: make(chan struct{})} }

// Open admits operations from now on.
func (c *Control) Open() { c.opened.Store(true) }

// Opened reports whether Open was called. It stays true after Drain.
func (c *Control) Opened() bool { return c.opened.Load() }

// Enter admits one operation, which Leave ends, or returns why it may not begin.
func (c *Control) Enter() error {
	switch {
	case !c.opened.Load():
		return ErrNotReady
	case !c.inside.Enter():
		return meta.ErrDraining
	}
	return nil
}

// EnterContext is Enter for an operation that does not begin after its context ended.
func (c *Control) EnterContext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Enter()
}

// Leave ends an admitted operation.
func (c *Control) Leave() { c.inside.Leave() }

// Draining reports whether Drain has begun.
func (c *Control) Draining() bool { return c.inside.Closed() }

// Stopping is closed when Drain begins.
func (c *Control) Stopping() <-chan struct{} { return c.stopping }

// Alive returns ErrDraining if the store is stopping, the error of ctx if it is
// done, and nil otherwise.
func (c *Control) Alive(ctx context.Context) error {
	select {
	case <-c.stopping:
		return meta.ErrDraining
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

// Drain refuses new operations and waits until all admitted ones have left. It
// is called once.
func (c *Control) Drain() {
	c.inside.Close()
	close(c.stopping)
	c.inside.CloseAndWait()
}

// Reader returns a reader of r that fails once ctx is done or the store drains.
func (c *Control) Reader(ctx context.Context, r io.Reader) io.Reader { return &reader{ctx, c, r} }

type reader struct {
	ctx context.Context
	c   *Control
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.c.Alive(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
