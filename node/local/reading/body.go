package reading

import (
	"context"
	"io"
	"sync"

	"allium/internal/guard"
)

// body is a stream whose bytes a function writes. WriteTo runs the function on the
// goroutine of the caller. Read runs it on a goroutine of the body; Close waits for it.
type body struct {
	ctx    context.Context
	cancel context.CancelFunc
	write  func(context.Context, io.Writer) error
	close  func() error // called by Close; may be nil

	once sync.Once
	wg   sync.WaitGroup
	pipe *io.PipeReader
}

func newBody(
	ctx context.Context, write func(context.Context, io.Writer) error, close func() error,
) *body {
	ctx, cancel := context.WithCancel(ctx)
	return &body{ctx: ctx, cancel: cancel, write: write, close: close}
}

// WriteTo writes the whole stream to w. Call it at most once, and not after Read.
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
			_ = w.CloseWithError(guard.Run(func() error { return b.write(b.ctx, w) }))
		})
	})
	return b.pipe.Read(p)
}

// Close ends the stream, before or after its end.
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
