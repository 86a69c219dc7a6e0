package object

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/deadline"
	"allium/internal/limits"
	"allium/protocols/oap"
)

// Sizes of the buffers that an answer is built in, in bytes.
const (
	batchBytes = 64<<10 - 12 // small frames that go out in one write: what yamux puts into one message
	oneGroup   = 72 << 10    // what oap.Builder takes for frames up to that; above, it takes oap.MaxFrame
)

var batches = sync.Pool{New: func() any { return new([batchBytes]byte) }}

// batchWait is how long a small frame may wait for others, so that a peer sees
// progress however slowly objects are found.
const batchWait = 20 * time.Millisecond

// output is the writing half of a served stream: small frames are gathered and
// written together, large ones go straight from the buffer they were built in.
//
// Invariant: buffers are in use (held > 0) only while reserve has charged them
// to both budgets, and between flush and reserve none is. A stream with nothing
// to say costs nothing, and one that waits for budget holds none.
//
// It belongs to the stream's one writer.
type output struct {
	cfg   *Config
	timed deadline.Writer // its clock runs in write, and is paused between

	peer, node *limits.Budget
	charge     int64 // bytes of the buffers of one frame
	held       int64 // bytes charged to both: charge or 0

	batch  *[batchBytes]byte // nil when empty
	n      int               // bytes of batch in use
	since  time.Time         // when the first of them came
	frames *oap.Writer       // writes into this output

	builder  *oap.Builder // of item frames; nil before the first answer
	maxFrame uint32       // what builder was made for, at most Config.FrameBytes
}

func newOutput(st network.Stream, cfg *Config, peer, node *limits.Budget) *output {
	o := &output{
		cfg: cfg, timed: deadline.NewWriter(st, deadline.NewMinRate(cfg.WriteTimeout, int64(cfg.MinRate))),
		peer: peer, node: node, charge: batchBytes + oneGroup,
	}
	if cfg.FrameBytes > oneGroup {
		o.charge = batchBytes + oap.MaxFrame
	}
	o.frames = oap.NewWriter(o, oap.MaxFrame)
	return o
}

// limit sets the largest frame, header included, of the answers that follow.
func (o *output) limit(maxFrame uint32) {
	maxFrame = min(maxFrame, uint32(o.cfg.FrameBytes))
	if o.builder == nil || maxFrame != o.maxFrame {
		o.maxFrame, o.builder = maxFrame, oap.NewBuilder(maxFrame)
	}
}

// reserve charges the buffers that a frame takes, or keeps the charge there is.
// It waits at most the permit wait, with nothing held, and then is status busy.
func (o *output) reserve(ctx context.Context) error {
	if o.held > 0 {
		return nil
	}
	if err := acquire(ctx, o.peer, o.charge, o.cfg.PermitWait); err != nil {
		return err
	}
	if err := acquire(ctx, o.node, o.charge, o.cfg.PermitWait); err != nil {
		o.peer.Release(o.charge)
		return err
	}
	o.held = o.charge
	return nil
}

// acquire is Budget.Acquire with a bound on the wait and a typed refusal.
func acquire(ctx context.Context, b *limits.Budget, n int64, wait time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := b.Acquire(waiting, n)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return b.TryAcquire(n)
	}
	return err
}

// frame sends a frame, at once or with the next ones.
func (o *output) frame(f oap.Frame) error { return o.frames.Write(f) }

// Write implements [io.Writer] for the frame writer: one call is one frame.
func (o *output) Write(p []byte) (int, error) {
	if o.n+len(p) > batchBytes {
		if err := o.writeBatch(); err != nil {
			return 0, err
		}
	}
	if o.held == 0 || len(p) > batchBytes {
		return o.write(p)
	}
	if o.batch == nil {
		o.batch = batches.Get().(*[batchBytes]byte)
	}
	now := time.Now()
	if o.n == 0 {
		o.since = now
	}
	o.n += copy(o.batch[o.n:], p)
	if now.Sub(o.since) < batchWait {
		return len(p), nil
	}
	return len(p), o.writeBatch()
}

// flush writes what was gathered and gives every buffer back.
func (o *output) flush() error {
	err := o.writeBatch()
	o.release()
	return err
}

// release gives every buffer back; what was gathered is lost.
func (o *output) release() {
	if o.batch != nil {
		batches.Put(o.batch)
		o.batch, o.n = nil, 0
	}
	if o.builder != nil {
		o.builder.Release()
	}
	if o.held > 0 {
		o.peer.Release(o.held)
		o.node.Release(o.held)
		o.held = 0
	}
}

func (o *output) writeBatch() error {
	if o.n == 0 {
		return nil
	}
	_, err := o.write(o.batch[:o.n])
	o.n = 0
	return err
}

// write writes p to the stream at the pace at which the peer must take it. What
// passes between writes, to find the next objects, for budgets and for a turn at
// the serve rate, is not the peer's time.
func (o *output) write(p []byte) (int, error) {
	n, err := o.timed.Write(p)
	o.timed.Pause(time.Now())
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, deadline.ErrPassed):
		err = tooSlow("write answer", o.cfg, o.cfg.WriteTimeout)
	}
	return n, &streamError{err}
}

// streamError is an error of the stream itself: nothing can be answered on it
// any more.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

func isStreamError(err error) bool {
	var s *streamError
	return errors.As(err, &s)
}
