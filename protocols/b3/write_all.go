package b3

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// wholeSpan is the number of bytes that one goroutine of WriteAllTo reads in a row. The parents
// above a span are proved once for it.
const wholeSpan = 8 << 20

// WriteAllTo writes the whole object to w, each group at its place once it is verified. Several
// goroutines read, verify and write: one for each core of the queue, and one without a queue. wrote
// is called with the bytes of each write, by any of them. WriteAllTo stops at the first error, or
// when ctx ends. readErr is an error of the object, writeErr one of w or of ctx. When it returns, no
// write is in progress.
func (r *Reader) WriteAllTo(ctx context.Context, w io.WriterAt, wrote func(n int)) (readErr, writeErr error) {
	workers := 1
	if r.queue != nil {
		workers = r.queue.Cores()
	}
	spans := (r.size + wholeSpan - 1) / wholeSpan
	spans = max(spans, 1) // an empty object is verified too
	var next atomic.Int64
	var failed atomic.Bool
	var once sync.Once
	var wg sync.WaitGroup
	for range min(int64(workers), spans) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < spans && !failed.Load(); i = next.Add(1) - 1 {
				start := i * wholeSpan
				out := &placedWriter{ctx: ctx, w: w, at: start, wrote: wrote, stop: &failed}
				s := r.Section(start, min(start+wholeSpan, r.size))
				_, err := s.WriteTo(out)
				_ = s.Close() // always nil
				if err == nil {
					continue
				}
				once.Do(func() {
					defer failed.Store(true)
					var written *placedError
					if errors.As(err, &written) {
						writeErr = written.err
					} else {
						readErr = err
					}
				})
			}
		})
	}
	wg.Wait()
	return readErr, writeErr
}

// placedWriter writes in order from the offset at on.
type placedWriter struct {
	ctx   context.Context
	w     io.WriterAt
	at    int64
	wrote func(n int)
	stop  *atomic.Bool // another writer has failed
}

// placedError is an error of the writer and not of the object.
type placedError struct{ err error }

func (e *placedError) Error() string { return e.err.Error() }

func (w *placedWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, &placedError{err}
	}
	if w.stop.Load() {
		return 0, &placedError{errSectionClosed} // the first error is returned
	}
	n, err := w.w.WriteAt(p, w.at)
	w.at += int64(n)
	if err != nil {
		return n, &placedError{err}
	}
	w.wrote(n)
	return n, nil
}
