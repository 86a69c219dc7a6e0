package oap

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// loop is a stream that returns the same bytes again and again.
type loop struct {
	data []byte
	at   int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.data[l.at:])
	if l.at += n; l.at == len(l.data) {
		l.at = 0
	}
	return n, nil
}

func encoded(tb testing.TB, payload, frames int) []byte {
	var stream []byte
	for range frames {
		var err error
		stream, err = AppendFrame(stream, Frame{Header: Header{Flags: FlagResp | FlagStart, CorrID: 1},
			Payload: make([]byte, payload)}, MaxFrame)
		if err != nil {
			tb.Fatal(err)
		}
	}
	return stream
}

// TestAllocations checks upper bounds of allocations: at most 2 for reading a 64 KiB frame, and for the
// rest what the code needs today.
func TestAllocations(t *testing.T) {
	for _, size := range []int{256, 64 << 10, MaxFrame - HeaderSize} {
		r := NewReader(&loop{data: encoded(t, size, 3)}, MaxFrame)
		if n := testing.AllocsPerRun(200, func() {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}); n > 1 {
			t.Errorf("reading %d bytes: %v allocations", size, n)
		}
		w := NewWriter(io.Discard, MaxFrame)
		f := Frame{Header: Header{Flags: FlagEvent}, Payload: make([]byte, size)}
		if n := testing.AllocsPerRun(200, func() {
			if err := w.Write(f); err != nil {
				t.Fatal(err)
			}
		}); n > 1 {
			t.Errorf("writing %d bytes: %v allocations", size, n)
		}
	}
}

// TestMemoryFollowsArrival checks that bytes that a header announces use no memory until they arrive,
// and that an idle reader holds only a tiny buffer.
func TestMemoryFollowsArrival(t *testing.T) {
	large := encoded(t, MaxFrame-HeaderSize, 1)
	for _, tc := range []struct{ arrived, holds int }{
		{HeaderSize, smallSize},
		{smallSize - 1, smallSize},
		{smallSize + 1, mediumSize},
		{mediumSize - 1, mediumSize},
		{mediumSize + 1, bigSize},
		{bigSize - 1, bigSize},
		{bigSize + 1, largeSize},
		{MaxFrame - 1, largeSize},
	} {
		r := NewReader(bytes.NewReader(large[:tc.arrived]), MaxFrame)
		_, err := r.Next()
		var de *DecodeError
		if !errors.As(err, &de) || de.Reason != ReasonTruncated || len(r.buf.b) != tc.holds {
			t.Errorf("%d bytes: %v, buffer of %d, want %d", tc.arrived, err, len(r.buf.b), tc.holds)
		}
	}
	for _, claim := range []uint32{0, HeaderSize - 1, MaxFrame + 1, 1<<32 - 1} {
		h := Header{Len: claim, Ver: Version, Flags: FlagEvent}
		p := make([]byte, HeaderSize)
		h.put(p)
		r := NewReader(bytes.NewReader(p), MaxFrame)
		if _, err := r.Next(); err == nil || len(r.buf.b) != tinySize {
			t.Errorf("len %d: %v, buffer of %d", claim, err, len(r.buf.b))
		}
	}
	r := NewReader(bytes.NewReader(large), MaxFrame)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.full = false // as after a read that left nothing waiting
	if _, err := r.Next(); !errors.Is(err, io.EOF) || len(r.buf.b) > tinySize {
		t.Errorf("after a pause: %v, buffer of %d", err, len(r.buf.b))
	}
	w := NewWriter(io.Discard, MaxFrame)
	if err := w.Write(Frame{Header: Header{Flags: FlagEvent}, Payload: make([]byte, 500_000)}); err != nil ||
		len(w.buf.b) != 0 {
		t.Errorf("writer keeps %d bytes", len(w.buf.b))
	}
}
