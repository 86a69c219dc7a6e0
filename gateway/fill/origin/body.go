package origin

import (
	"context"
	"errors"
	"io"
	"time"

	"allium/internal/deadline"
	"allium/protocols/status"
)

// Body is the body of an answer. Read returns io.EOF only after the whole body: a body that ends early, pauses for
// longer than Params.Idle, is slower than Params.MinRate or has more than Config.MaxBytes is an error, which every
// later Read returns too. One goroutine uses a Body.
type Body struct {
	from   io.ReadCloser
	c      *Client
	ctx    context.Context // of the try, which cancel ends
	cancel context.CancelCauseFunc
	done   func(error) // tells the breaker how the transfer ended

	left  int64 // bytes that may still arrive
	known int64 // bytes that still have to arrive; −1: not known
	first []byte
	rate  deadline.MinRate
	timer *time.Timer
	err   error // how the body ended
}

// errStalled is the cause that ends a body that is too slow.
var errStalled = errors.New("the body is too slow")

func newBody(from io.ReadCloser, most int64) *Body { return &Body{from: from, left: most, known: -1} }

// begin waits for the first byte. size is that of the body, −1 if it is not known.
func (b *Body) begin(ctx context.Context, c *Client, cancel context.CancelCauseFunc, size int64) error {
	b.ctx, b.c, b.cancel, b.known = ctx, c, cancel, size
	p := make([]byte, 1)
	for empty := 0; ; empty++ {
		n, err := b.from.Read(p)
		switch {
		case n > 0:
			b.first = p
		case err == nil && empty < maxEmptyReads:
			continue
		case err == nil:
			return io.ErrNoProgress
		case errors.Is(err, io.EOF) && (size == 0 || size < 0 && context.Cause(ctx) == nil):
			b.err = io.EOF
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
		break
	}
	b.rate = deadline.NewMinRate(c.cfg.Params.Idle, c.cfg.Params.MinRate)
	b.timer = time.AfterFunc(time.Hour, func() { cancel(errStalled) })
	b.timer.Stop()
	return nil
}

// maxEmptyReads bounds the reads in a row that return neither bytes nor an error.
const maxEmptyReads = 100

// Read implements io.Reader.
func (b *Body) Read(p []byte) (n int, err error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case len(b.first) > 0:
		n, b.first = copy(p, b.first), nil
	case b.err != nil:
		return 0, b.err
	default:
		n, err = b.read(p)
	}
	b.left -= int64(n)
	if b.known >= 0 {
		b.known -= int64(n)
	}
	switch {
	case b.left < 0:
		err = b.c.tooLarge()
	case errors.Is(err, io.EOF) && b.known > 0:
		err = b.c.cutShort(io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF) && b.known < 0 && context.Cause(b.ctx) != nil:
		// A canceled transfer says goodbye before it closes the connection. An origin that ends its answer then ends it
		// well, and its last chunk may still be read.
		err = b.explain(io.ErrUnexpectedEOF)
	case err != nil && !errors.Is(err, io.EOF):
		err = b.explain(err)
	}
	if err != nil {
		b.err = err
		if b.left < 0 {
			n = 0
		}
	}
	return n, err
}

// read reads from the origin. The clock runs only meanwhile: a slow consumer is not a slow origin.
func (b *Body) read(p []byte) (int, error) {
	b.timer.Reset(time.Until(b.rate.Until(time.Now())))
	n, err := b.from.Read(p)
	b.timer.Stop()
	b.rate.Earn(n)
	b.rate.Pause(time.Now())
	return n, err
}

// explain returns why a read failed.
func (b *Body) explain(err error) error {
	switch cause := context.Cause(b.ctx); {
	case errors.Is(cause, errStalled), cause == nil && status.Of(err) == status.Timeout:
		b.c.deps.TimedOut()
		f := b.c.fail(status.Timeout, "", "the origin stopped sending, or sends too slowly. Try again later", err)
		f.failing = true
		return f
	case cause != nil: // the context of the caller has ended
		return cause
	}
	return b.c.cutShort(err)
}

// cutShort returns the error of a body that ended early.
func (c *Client) cutShort(cause error) *failure {
	f := c.fail(status.Upstream, "short", "the origin broke off in the middle of the file. Try again later", cause)
	f.failing, f.answered = true, true
	return f
}

// Close ends the transfer and tells the breaker whether it failed. A body that the caller did not read to its end is
// no failure.
func (b *Body) Close() error {
	b.abandon()
	if done := b.done; done != nil {
		b.done = nil
		err := b.err
		if errors.Is(err, io.EOF) {
			err = nil
		}
		done(err)
	}
	return nil
}

// abandon closes the connection, or gives it back if the body was read to its end.
func (b *Body) abandon() {
	if b.timer != nil {
		b.timer.Stop()
	}
	_ = b.from.Close() // what it returns says nothing about what was read
	if b.cancel != nil {
		b.cancel(nil)
	}
}

// Failed returns the error that ended the body, or nil if it has not ended or is whole.
func (b *Body) Failed() error {
	if errors.Is(b.err, io.EOF) {
		return nil
	}
	return b.err
}
