package oap_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/oap"
)

// genFrame draws a valid frame.
func genFrame() *rapid.Generator[oap.Frame] {
	return rapid.Custom(func(t *rapid.T) oap.Frame {
		f := oap.Frame{Header: oap.Header{
			Flags: rapid.SampledFrom([]oap.Flags{oap.FlagReq, oap.FlagResp, oap.FlagEvent,
				oap.FlagEvent | oap.FlagResp}).Draw(t, "kind") |
				oap.Flags(rapid.IntRange(0, 31).Draw(t, "flags"))<<3,
			Code:   rapid.Uint16().Draw(t, "code"),
			Proto:  rapid.Uint16().Draw(t, "proto"),
			CorrID: rapid.Uint64().Draw(t, "corr"),
		}}
		copy(f.Tenant[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "tenant"))
		if f.Flags.Has(oap.FlagReq | oap.FlagStart) {
			f.Cap = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "cap")
		}
		f.Payload = bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "payload"),
			rapid.SampledFrom([]int{1, 1, 1, 300, 5000}).Draw(t, "times"))
		if f.Flags.Has(oap.FlagReq) {
			f.Payload = f.Payload[:min(len(f.Payload), oap.MaxJSON)]
		}
		return f
	})
}

// chunkReader returns the data in reads of the given sizes, which it repeats. Size 0 is a read that
// returns nothing, -1 a read that fails once.
type chunkReader struct {
	data  []byte
	sizes []int
	i     int
}

var errOnce = errors.New("once")

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	size := r.sizes[r.i%len(r.sizes)]
	r.i++
	if size < 0 {
		return 0, errOnce
	}
	n := copy(p, r.data[:min(size, len(r.data))])
	r.data = r.data[n:]
	return n, nil
}

// readAll returns the frames of a reader. It continues after errOnce, as a session continues after a
// read deadline.
func readAll(r *oap.Reader) (frames []string, err error) {
	for {
		f, err := r.Next()
		switch {
		case err == nil:
			frames = append(frames, describe(f))
		case !errors.Is(err, errOnce):
			return frames, err
		}
	}
}

// TestAnySplitGivesTheSameFrames checks that a split over reads changes no frame (SPEC.md §1).
func TestAnySplitGivesTheSameFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want []string
		for _, f := range rapid.SliceOfN(genFrame(), 0, 8).Draw(t, "frames") {
			var err error
			if stream, err = oap.AppendFrame(stream, f, oap.MaxFrame); err != nil {
				t.Fatal(err)
			}
			want = append(want, describe(f))
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "tail")
		stream = append(stream, tail...)
		whole, wholeErr := readAll(oap.NewReader(bytes.NewReader(stream), oap.MaxFrame))
		if len(whole) < len(want) || !equal(whole[:len(want)], want) {
			t.Fatalf("got %v, want %v", whole, want)
		}
		sizes := append(rapid.SliceOfN(rapid.SampledFrom([]int{-1, 0, 1, 2, 37, 38, 39, 4096, 70_000, 1 << 20}), 0,
			6).Draw(t, "sizes"), rapid.IntRange(1, 50_000).Draw(t, "size"))
		split, splitErr := readAll(oap.NewReader(&chunkReader{data: stream, sizes: sizes}, oap.MaxFrame))
		if !equal(split, whole) || splitErr.Error() != wholeErr.Error() {
			t.Fatalf("in reads of %v: %v, %v\nwhole: %v, %v", sizes, split, splitErr, whole, wholeErr)
		}
		if len(tail) == 0 && !errors.Is(wholeErr, io.EOF) {
			t.Fatalf("a clean end gives %v", wholeErr)
		}
	})
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// countWriter counts Write calls and keeps the bytes of the last one.
type countWriter struct {
	calls int
	last  []byte
	short bool
}

func (w *countWriter) Write(p []byte) (int, error) {
	w.calls++
	w.last = append(w.last[:0], p...)
	if w.short {
		return len(p) - 1, nil
	}
	return len(p), nil
}

func TestOneWritePerFrame(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 65536, 100_000, oap.MaxFrame - oap.HeaderSize} {
		payload := bytes.Repeat([]byte{0xA5}, n)
		h := oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: 200, Proto: oap.ProtoObject, CorrID: 9,
			Tenant: [16]byte{1, 2}}
		var cw countWriter
		w := oap.NewWriter(&cw, oap.MaxFrame)
		if err := w.Write(oap.Frame{Header: h, Payload: payload}); err != nil || cw.calls != 1 {
			t.Fatalf("%d bytes: %v, %d writes", n, err, cw.calls)
		}
		written := bytes.Clone(cw.last)

		b := oap.NewBuilder(oap.MaxFrame)
		for _, fresh := range []bool{true, false} { // a released builder works again
			b.Reset(h)
			for rest := payload; len(rest) > 0; {
				m := min(len(rest), 65536, b.Available())
				copy(b.Next(m), rest)
				b.Commit(m)
				rest = rest[m:]
			}
			if !bytes.Equal(b.Payload(), payload) || b.Available() != oap.MaxFrame-oap.HeaderSize-n {
				t.Fatalf("%d bytes: builder holds %d, room %d", n, len(b.Payload()), b.Available())
			}
			cw = countWriter{}
			if err := w.WriteBuilder(b); err != nil || cw.calls != 1 || !bytes.Equal(cw.last, written) {
				t.Fatalf("%d bytes, fresh %t: %v, %d writes, same %t", n, fresh, err, cw.calls,
					bytes.Equal(cw.last, written))
			}
			b.Release()
		}
	}
}

// TestFlushSendsTogether checks that added frames are sent in one write and in order, and that a
// refused frame is left out without an effect on the others.
func TestFlushSendsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frames := rapid.SliceOfN(genFrame(), 0, 8).Draw(t, "frames")
		var out countWriter
		w := oap.NewWriter(&out, oap.MaxFrame)
		var want []byte
		for _, f := range frames {
			if err := w.Add(f); err != nil {
				t.Fatal(err)
			}
			if err := w.Add(oap.Frame{}); err == nil {
				t.Fatal("a frame that is neither request nor response nor event was added")
			}
			want, _ = oap.AppendFrame(want, f, oap.MaxFrame)
		}
		for range 2 { // the second has nothing to send
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(out.last, want) || out.calls > 1 || (out.calls == 0) != (len(frames) == 0) {
			t.Fatalf("%d frames: %d bytes in %d writes, want %d", len(frames), len(out.last), out.calls, len(want))
		}
	})
}

func TestWriterRefuses(t *testing.T) {
	req := oap.Header{Flags: oap.FlagReq | oap.FlagStart | oap.FlagEnd}
	for name, tc := range map[string]struct {
		f    oap.Frame
		want oap.Reason
	}{
		"payload too long": {oap.Frame{Header: req, Payload: make([]byte, oap.MinMaxFrame)}, oap.ReasonFrameOversize},
		"request too long": {oap.Frame{Header: req, Payload: make([]byte, oap.MaxJSON+1)}, oap.ReasonFrameOversize},
		"answer too long": {oap.Frame{Header: oap.Header{Flags: oap.FlagResp}, Payload: make([]byte, oap.MinMaxFrame)},
			oap.ReasonFrameOversize},
		"far too long": {oap.Frame{Header: req, Payload: make([]byte, oap.MaxFrame+1)}, oap.ReasonFrameOversize},
		"capability":   {oap.Frame{Header: req, Cap: make([]byte, oap.MaxCap+1)}, oap.ReasonFrameOversize},
		"no kind":      {oap.Frame{}, oap.ReasonBadFlags},
		"reserved bit": {oap.Frame{Header: oap.Header{Flags: oap.FlagReq | 1<<15}}, oap.ReasonBadFlags},
		"cap on a response": {oap.Frame{Header: oap.Header{Flags: oap.FlagResp}, Cap: []byte{1}},
			oap.ReasonCapOnNonStart},
	} {
		var cw countWriter
		err := oap.NewWriter(&cw, oap.MinMaxFrame).Write(tc.f)
		var de *oap.DecodeError
		if !errors.As(err, &de) || de.Reason != tc.want || cw.calls != 0 {
			t.Errorf("%s: %v, %d writes", name, err, cw.calls)
		}
	}
	b := oap.NewBuilder(oap.MaxFrame)
	b.Reset(oap.Header{Flags: oap.FlagResp})
	b.Next(b.Available())
	b.Commit(b.Available())
	var cw countWriter
	if err := oap.NewWriter(&cw, oap.MinMaxFrame).WriteBuilder(b); err == nil || cw.calls != 0 {
		t.Errorf("builder above the writer's limit: %v, %d writes", err, cw.calls)
	}
	cw.short = true
	if err := oap.NewWriter(&cw, oap.MaxFrame).WriteBuilder(b); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short write: %v", err)
	}
}

func TestSetMaxFrame(t *testing.T) {
	f := oap.Frame{Header: oap.Header{Flags: oap.FlagEvent}, Payload: make([]byte, 200_000)}
	var b bytes.Buffer
	w, r := oap.NewWriter(&b, 1<<30), oap.NewReader(&b, 1<<30)
	for range 2 {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.SetMaxFrame(oap.MinMaxFrame)
	var de *oap.DecodeError
	if _, err := r.Next(); !errors.As(err, &de) || de.Reason != oap.ReasonFrameOversize {
		t.Errorf("reader: %v", err)
	}
}

// stuckReader never returns anything.
type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }

// lyingReader returns a count larger than its buffer.
type lyingReader struct{}

func (lyingReader) Read(p []byte) (int, error) { return len(p) + 1, nil }

func TestBrokenStreams(t *testing.T) {
	if _, err := oap.NewReader(stuckReader{}, oap.MaxFrame).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("stuck: %v", err)
	}
	if _, err := oap.NewReader(lyingReader{}, oap.MaxFrame).Next(); err == nil {
		t.Error("an impossible count was believed")
	}
	r := oap.NewReader(&chunkReader{data: []byte{0, 0}, sizes: []int{1, -1}}, oap.MaxFrame)
	if _, err := r.Next(); !errors.Is(err, errOnce) || r.Buffered() != 1 {
		t.Errorf("%v with %d bytes held", err, r.Buffered())
	}
	if _, err := oap.NewReader(failing{os.ErrDeadlineExceeded}, oap.MaxFrame).Next(); !errors.Is(err,
		os.ErrDeadlineExceeded) {
		t.Errorf("the stream's own error became %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
