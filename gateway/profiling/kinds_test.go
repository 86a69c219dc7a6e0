package profiling

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

// TestKinds: each kind gives what Go's tools read, and an ended wait ends it.
func TestKinds(t *testing.T) {
	for _, k := range kinds {
		out := &bounded{full: make(chan struct{})}
		if err := k.collect(out, func() error { return nil }); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		magic := []byte{0x1f, 0x8b} // gzip
		if k.name == "trace" {
			magic = []byte("go 1.")
		}
		if !bytes.HasPrefix(out.bytes(), magic) {
			t.Errorf("%s begins with %q", k.name, out.bytes()[:min(8, len(out.bytes()))])
		}
		err := k.collect(out, func() error { return context.Canceled })
		waits := k.name == "cpu" || k.name == "trace" || k.name == "mutex" || k.name == "block"
		if waits != errors.Is(err, context.Canceled) {
			t.Errorf("%s, whose client left: %v", k.name, err)
		}
	}
}

// TestBounded: what is written ends a collection at its bound, and takes no more than twice that.
func TestBounded(t *testing.T) {
	t.Parallel()
	out := &bounded{full: make(chan struct{})}
	piece := make([]byte, maxBytes/2)
	for i := range 6 {
		select {
		case <-out.full:
			if i < 2 {
				t.Fatalf("full after %d bytes", i*len(piece))
			}
		default:
			if i >= 2 {
				t.Fatalf("not full after %d bytes", i*len(piece))
			}
		}
		if n, err := out.Write(piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(out.bytes()); n != 2*maxBytes {
		t.Errorf("%d bytes are kept", n)
	}
	if err := collecting(t.Context(), time.Hour, out.full); err != nil {
		t.Error(err)
	}
}
