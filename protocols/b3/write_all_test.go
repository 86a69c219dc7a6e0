package b3

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"allium/protocols/status"
)

// offsets is an io.WriterAt in RAM that refuses a write on request.
type offsets struct {
	mu   sync.Mutex
	data []byte
	fail func(off int64) error
}

func (o *offsets) WriteAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		if err := o.fail(off); err != nil {
			return 0, err
		}
	}
	return copy(o.data[off:], p), nil
}

// TestWriteAllTo writes objects of several sizes, with and without a queue.
func TestWriteAllTo(t *testing.T) {
	for _, size := range []int{0, 1, GroupSize, GroupSize + 1, wholeSpan, 2*wholeSpan + 3*GroupSize + 7} {
		o := newObject(t, size)
		for _, q := range []*HashQueue{nil, NewHashQueue(1), NewHashQueue(4)} {
			out := &offsets{data: make([]byte, size)}
			var wrote atomic.Int64
			readErr, writeErr := q.Reader(o.root, o.size(), o.source()).WriteAllTo(
				t.Context(), out, func(n int) { wrote.Add(int64(n)) })
			if readErr != nil || writeErr != nil || !bytes.Equal(out.data, o.data) || wrote.Load() != int64(size) {
				t.Errorf("%d bytes: %v, %v, %d written", size, readErr, writeErr, wrote.Load())
			}
		}
	}
}

// TestWriteAllToFails damages the source, fails the writer and ends the context. The bytes of a
// damaged group are not written.
func TestWriteAllToFails(t *testing.T) {
	size := 2*wholeSpan + GroupSize
	o := newObject(t, size)
	q := NewHashQueue(4)
	full := errors.New("full")
	out := &offsets{data: make([]byte, size), fail: func(off int64) error {
		if off > wholeSpan {
			return full
		}
		return nil
	}}
	readErr, writeErr := q.Reader(o.root, o.size(), o.source()).WriteAllTo(t.Context(), out, func(int) {})
	if readErr != nil ||
		!errors.Is(writeErr, full) {
		t.Errorf("a full writer: %v, %v", readErr, writeErr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if readErr, writeErr := q.Reader(o.root, o.size(), o.source()).WriteAllTo(ctx, out, func(int) {}); readErr != nil ||
		!errors.Is(writeErr, context.Canceled) {
		t.Errorf("an ended context: %v, %v", readErr, writeErr)
	}
	damaged := 17 * GroupSize
	o.data[damaged] ^= 1 // the source reads it
	out = &offsets{data: make([]byte, size)}
	readErr, writeErr = q.Reader(o.root, o.size(), o.source()).WriteAllTo(t.Context(), out, func(int) {})
	if status.Of(readErr) != status.Corrupt || writeErr != nil {
		t.Errorf("a damaged group: %v, %v", readErr, writeErr)
	}
	if !bytes.Equal(out.data[damaged:damaged+GroupSize], make([]byte, GroupSize)) {
		t.Error("the damaged group was written")
	}
}
