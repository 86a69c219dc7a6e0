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

// The sizes of the buffers of an answer, in bytes.
const (
	batchBytes = 64<<10 - 12 // batch of small frames for one write: what fits one yamux message
	oneGroup   = 72 << 10    // buffer of oap.Builder for frames up to this; longer frames need oap.MaxFrame
)

var batches = sync.Pool{New: func() any { return new([batchBytes]byte) }}

// batchWait is the longest time that a small frame waits for others. The peer then
// sees progress even if the store finds objects slowly.
const batchWait = 20 * time.Millisecond

// output is the writing half of a served stream. It batches small frames into one
// write, and writes a large frame directly from the buffer where it was built.
//
// Invariant: output uses buffers only while they are charged to both budgets
// (charged > 0), which is between reserve and flush. So an idle stream, or one that
// waits for budget, holds no buffer.
//
// Only the writing goroutine of the stream uses it.
type output struct {
	cfg    *Config
	stream deadline.Writer // its clock runs only within write

	peer, node *limits.Budget
	charge     int64 // bytes of the buffers of one frame
	charged    int64 // bytes charged to both budgets: charge or 0

	batch      *[batchBytes]byte // nil if empty
	n          int               // bytes used in batch
	batchStart time.Time         // when the first frame entered batch
	frames     *oap.Writer       // writes to this output

	builder  *oap.Builder // builds item frames; nil before the first answer
	maxFrame uint32       // longest frame of builder in bytes, at most Config.FrameBytes
}

func newOutput(st network.Stream, cfg *Config, peer, node *limits.Budget) *output {
	o := &output{
		cfg: cfg, stream: deadline.NewWriter(st, deadline.NewMinRate(cfg.WriteTimeout, int64(cfg.MinRate))),
		peer: peer, node: node, charge: batchBytes + oneGroup,
	}
	if cfg.FrameBytes > oneGroup {
		o.charge = batchBytes + oap.MaxFrame
	}
	o.frames = oap.NewWriter(o, oap.MaxFrame)
	return o
}

// limit sets the longest frame of the following answers in bytes, including its
// header.
func (o *output) limit(maxFrame uint32) {
	maxFrame = min(maxFrame, uint32(o.cfg.FrameBytes))
	if o.builder == nil || maxFrame != o.maxFrame {
		o.maxFrame, o.builder = maxFrame, oap.NewBuilder(maxFrame)
	}
}

// reserve charges the buffers of a frame to both budgets, unless they are charged
// already. It waits at most PermitWait for each budget, without a buffer. Then the
// error is busy.
func (o *output) reserve(ctx context.Context) error {
	if o.charged > 0 {
		return nil
	}
	if err := acquire(ctx, o.peer, o.charge, o.cfg.PermitWait); err != nil {
		return err
	}
	if err := acquire(ctx, o.node, o.charge, o.cfg.PermitWait); err != nil {
		o.peer.Release(o.charge)
		return err
	}
	o.charged = o.charge
	return nil
}

// acquire calls b.Acquire and waits at most the given time. Then the error is the
// busy error of b.
func acquire(ctx context.Context, b *limits.Budget, n int64, wait time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := b.Acquire(waiting, n)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return b.TryAcquire(n)
	}
	return err
}

// frame sends a frame, now or in a batch with the next frames.
func (o *output) frame(f oap.Frame) error { return o.frames.Write(f) }

// Write implements [io.Writer] for the frame writer. Each call has one frame.
func (o *output) Write(p []byte) (int, error) {
	if o.n+len(p) > batchBytes {
		if err := o.writeBatch(); err != nil {
			return 0, err
		}
	}
	if o.charged == 0 || len(p) > batchBytes {
		return o.write(p)
	}
	if o.batch == nil {
		o.batch = batches.Get().(*[batchBytes]byte)
	}
	now := time.Now()
	if o.n == 0 {
		o.batchStart = now
	}
	o.n += copy(o.batch[o.n:], p)
	if now.Sub(o.batchStart) < batchWait {
		return len(p), nil
	}
	return len(p), o.writeBatch()
}

// flush writes the batch and releases every buffer.
func (o *output) flush() error {
	err := o.writeBatch()
	o.release()
	return err
}

// release releases every buffer and drops the batch.
func (o *output) release() {
	if o.batch != nil {
		batches.Put(o.batch)
		o.batch, o.n = nil, 0
	}
	if o.builder != nil {
		o.builder.Release()
	}
	if o.charged > 0 {
		o.peer.Release(o.charged)
		o.node.Release(o.charged)
		o.charged = 0
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

// write writes p to the stream. The error is timeout if the peer reads slower than
// WriteTimeout and MinRate allow. The time between writes does not count: the node
// uses it to find objects and to wait for budgets and the serve rate.
func (o *output) write(p []byte) (int, error) {
	n, err := o.stream.Write(p)
	o.stream.Pause(time.Now())
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, deadline.ErrPassed):
		err = tooSlow("write answer", o.cfg, o.cfg.WriteTimeout)
	}
	return n, &streamError{err: err}
}

// streamError is an error of the stream itself. No more answers can be sent on it.
type streamError struct {
	err     error
	reading bool // whether a read of the stream failed
}

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

func isStreamError(err error) bool {
	var s *streamError
	return errors.As(err, &s)
}
