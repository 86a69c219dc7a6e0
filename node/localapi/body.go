package localapi

import (
	"context"
	"io"
	"sync"

	"allium/node/supervise"
)

// body is a stream whose bytes come from a function that writes them. Copying
// it with WriteTo runs the function on the caller's goroutine; Read runs it on
// one of the body's own, which Close joins.
type body struct {
	ctx    context.Context
	cancel context.CancelFunc
	write  func(context.Context, io.Writer) error
	close  func() error // may be nil

	once sync.Once
	wg   sync.WaitGroup
	pipe *io.PipeReader
}

func newBody(ctx context.Context, write func(context.Context, io.Writer) error, close func() error) *body {
	ctx, cancel := context.WithCancel(ctx)
	return &body{ctx: ctx, cancel: cancel, write: write, close: close}
}

// WriteTo writes everything to w. It is called at most once, and not with Read.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	c := &countingWriter{w: w}
	err := b.write(b.ctx, c)
	return c.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (b *body) Read(p []byte) (int, error) {
	b.once.Do(func() {
		r, w := io.Pipe()
		b.pipe = r
		b.wg.Go(func() { // Read returns the error
			_ = w.CloseWithError(supervise.Guard(func() error { return b.write(b.ctx, w) }))
		})
	})
	return b.pipe.Read(p)
}

// Close ends the stream, whether or not it was read to its end.
func (b *body) Close() error {
	b.cancel()
	if b.pipe != nil {
		_ = b.pipe.Close()
	}
	b.wg.Wait()
	if b.close != nil {
		return b.close()
	}
	return nil
}
