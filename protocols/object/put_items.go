package object

import (
	"context"
	"sync/atomic"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/oap"
)

// itemWriter sends the items of a put in frames.
type itemWriter struct {
	st     *clientStream
	wait   func(ctx context.Context, bytes int) error // may be nil
	upload *limits.Bandwidth                          // nil: no bound
	sent   func(bytes float64)
	frame  *oap.Builder
	ending atomic.Bool // whether the frame with END is being sent, or was
}

// run sends the items of s. An error that is not of the stream is a *sinkError.
func (w *itemWriter) run(ctx context.Context, maxFrame uint32, s putter) error {
	w.frame = oap.NewBuilder(min(maxFrame, uint32(w.st.cfg.FrameBytes)))
	defer w.frame.Release()
	w.reset()
	return s.items(ctx, w)
}

func (w *itemWriter) reset() {
	w.frame.Reset(oap.Header{Flags: oap.FlagReq, Proto: oap.ProtoObject, CorrID: w.st.corr})
}

// fill adds the next item of walk to the frame if it fits. It reports whether walk has
// more items.
func (w *itemWriter) fill(obj b3.Object, from *b3.Reader, walk *b3.Walk) (fits, more bool, err error) {
	item, more := walk.Next()
	if !more || item.Len > w.frame.Available() {
		return false, more, nil
	}
	if _, err := from.Fill(walk, w.frame.Next(item.Len)); err != nil {
		return false, false, &sinkError{obj.Failed(err)}
	}
	w.frame.Commit(item.Len)
	_, more = walk.Next()
	return true, more, nil
}

// flush sends the frame. last says that no items follow.
func (w *itemWriter) flush(ctx context.Context, last bool) error {
	n := len(w.frame.Payload())
	if w.wait != nil {
		if err := w.wait(ctx, n); err != nil {
			return &sinkError{err}
		}
	}
	if err := w.st.bandwidth(ctx, w.upload)(n); err != nil {
		return &sinkError{err}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if last {
		w.frame.End()
		w.ending.Store(true)
	}
	if err := w.st.writer.WriteBuilder(w.frame); err != nil {
		return err
	}
	w.sent(float64(n))
	w.reset()
	return nil
}
