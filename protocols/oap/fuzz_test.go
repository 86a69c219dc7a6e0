package oap_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"testing/iotest"

	"allium/protocols/oap"
)

// FuzzReader checks that no input panics, that the split over reads does not matter, and that decoded
// frames encode to the same bytes.
func FuzzReader(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.stream)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, wholeErr := readAll(oap.NewReader(bytes.NewReader(stream), oap.MaxFrame))
		split, splitErr := readAll(oap.NewReader(iotest.OneByteReader(bytes.NewReader(stream)), oap.MaxFrame))
		if !equal(whole, split) || wholeErr.Error() != splitErr.Error() {
			t.Fatalf("whole %v, %v; byte by byte %v, %v", whole, wholeErr, split, splitErr)
		}
		var again []byte
		for r := oap.NewReader(bytes.NewReader(stream), oap.MaxFrame); ; {
			fr, err := r.Next()
			if err != nil {
				break
			}
			_ = accept(fr, oap.MaxFrame)
			if len(fr.Cap) > oap.MaxCap {
				return // read, but never sent
			}
			if again, err = oap.AppendFrame(again, fr, oap.MaxFrame); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("encodes to %x", again)
		}
	})
}

// FuzzRoundTrip checks that a reader returns unchanged each frame that a writer sends, and that it
// refuses, for the same reason, each frame that a writer refuses.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint16(25), uint16(0), uint16(1), uint64(7), []byte("tenant"), []byte("cap"), []byte("payload"))
	f.Add(uint16(6), uint16(0), uint16(0), uint64(0), []byte{}, []byte{}, []byte{0, 0, 0, 0, 0, 0, 0, 1})
	f.Add(uint16(0x1ff), uint16(200), uint16(9), uint64(1)<<63, []byte{}, []byte{1}, []byte{})
	f.Fuzz(func(t *testing.T, flags, code, proto uint16, corr uint64, tenant, capability, payload []byte) {
		in := oap.Frame{Header: oap.Header{Flags: oap.Flags(flags), Code: code, Proto: proto, CorrID: corr},
			Cap: capability, Payload: payload}
		copy(in.Tenant[:], tenant)
		var b bytes.Buffer
		const maxFrame = 4096
		err := oap.NewWriter(&b, maxFrame).Write(in)
		if err != nil {
			var sent *oap.DecodeError
			if !errors.As(err, &sent) || b.Len() != 0 {
				t.Fatalf("%v after %d bytes", err, b.Len())
			}
			return
		}
		out, err := oap.NewReader(&b, maxFrame).Next()
		if err != nil || describe(out) != describe(in) {
			t.Fatalf("sent %s\ngot  %s, %v", describe(in), describe(out), err)
		}
	})
}

// FuzzInflate checks that the result stays within its bound, and that Compress is the inverse.
func FuzzInflate(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.stream[min(len(v.stream), oap.HeaderSize):])
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if out, err := codec.Inflate(nil, p, oap.MaxFrame); err == nil && len(out) > max(64<<10, 10*len(p)) {
			t.Fatalf("%d bytes became %d", len(p), len(out))
		}
		if z, ok := codec.Compress(nil, p, oap.MinMaxFrame); ok {
			if out, err := codec.Inflate(nil, z, oap.MinMaxFrame); err != nil || !bytes.Equal(out, p) {
				t.Fatalf("compressed, then %v", err)
			}
		}
	})
}

// FuzzDecodeJSON checks that nothing panics, and that an accepted payload is JSON and is accepted again
// after encoding.
func FuzzDecodeJSON(f *testing.F) {
	f.Add([]byte(`{"op":"get","objs":["b3:00"],"ranges":[[0,-1]],"size_proof":true}`))
	f.Add([]byte(`{"a":9007199254740992,"b":{"a":"\""}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		var v map[string]any
		if err := oap.DecodeJSON(p, &v, false); err != nil {
			return
		}
		if !json.Valid(p) {
			t.Fatalf("%q is not JSON", p)
		}
		q, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := oap.DecodeJSON(q, &v, false); err != nil && len(q) <= oap.MaxJSON {
			t.Fatalf("%q, again as %q: %v", p, q, err)
		}
	})
}
