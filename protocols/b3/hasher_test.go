package b3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// TestHasherSplits is a property: however the input is cut, by Write or by
// ReadFrom, with however many workers, root and outboard are the same.
func TestHasherSplits(t *testing.T) {
	var objects [12]*object
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.IntRange(0, len(objects)-1).Draw(t, "class")
		if objects[class] == nil {
			objects[class] = newObject(t, max(0, class*class*GroupSize/2+[]int{-1, 0, 1, 1000}[class%4]))
		}
		o := objects[class]
		var out bytes.Buffer
		h := NewHasher(&out, rapid.IntRange(0, 4).Draw(t, "workers"))
		defer h.Reset(nil)
		for rest := o.data; len(rest) > 0; {
			n := min(len(rest), rapid.OneOf(rapid.IntRange(1, 2*batchSize),
				rapid.SampledFrom([]int{1, GroupSize, batchSize, batchSize + 1, 4 * batchSize})).Draw(t, "n"))
			p := bytes.Clone(rest[:n])
			var got int64
			var err error
			if rapid.Bool().Draw(t, "read") {
				got, err = h.ReadFrom(bytes.NewReader(p))
			} else {
				var k int
				k, err = h.Write(p)
				got = int64(k)
			}
			if got != int64(n) || err != nil {
				t.Fatal(got, err)
			}
			clear(p) // what was written is the caller's again
			rest = rest[n:]
		}
		root, size, err := h.Sum()
		if err != nil || root != o.root || size != o.size() || !bytes.Equal(out.Bytes(), o.outboard) {
			t.Fatalf("size %d: got %s, %d, %v, outboard of %d bytes", o.size(), root, size, err, out.Len())
		}
	})
}

// TestHasherSizes: every boundary size with every number of workers.
func TestHasherSizes(t *testing.T) {
	var out bytes.Buffer
	hashers := []*Hasher{NewHasher(nil, 1), NewHasher(nil, 2), NewHasher(nil, 3)}
	for _, n := range sizes() {
		o := newObject(t, n)
		for i, h := range hashers {
			out.Reset()
			h.Reset(&out)
			if _, err := io.Copy(h, iotest.HalfReader(bytes.NewReader(o.data))); err != nil {
				t.Fatal(err)
			}
			root, size, err := h.Sum()
			if err != nil || root != o.root || size != o.size() || !bytes.Equal(out.Bytes(), o.outboard) {
				t.Fatalf("size %d, %d workers: got %s, %d, %v", n, i+1, root, size, err)
			}
			h.Reset(nil)
			if _, err := h.Write(o.data); err != nil {
				t.Fatal(err)
			}
			if root, _, err := h.Sum(); err != nil || root != o.root {
				t.Fatalf("size %d, %d workers, no outboard: got %s, %v", n, i+1, root, err)
			}
		}
	}
}

func TestHasherEnds(t *testing.T) {
	h := NewHasher(nil, 2)
	if root, size, err := h.Sum(); root != Sum(nil) || size != 0 || err != nil {
		t.Fatal(root, size, err)
	}
	if _, err := h.Write([]byte{1}); !errors.Is(err, errFinished) {
		t.Fatal("Write after Sum:", err)
	}
	if _, err := h.ReadFrom(bytes.NewReader(nil)); !errors.Is(err, errFinished) {
		t.Fatal("ReadFrom after Sum:", err)
	}
	if _, _, err := h.Sum(); !errors.Is(err, errFinished) {
		t.Fatal("Sum after Sum:", err)
	}
}

// TestHasherAbandoned: Reset in the middle of an object leaves nothing of it.
func TestHasherAbandoned(t *testing.T) {
	p := pattern(5*batchSize + 3)
	for workers := 1; workers <= 4; workers++ {
		h := NewHasher(io.Discard, workers)
		for range 3 {
			if _, err := h.Write(p); err != nil {
				t.Fatal(err)
			}
			h.Reset(nil)
		}
		if _, err := h.Write(p[1:]); err != nil {
			t.Fatal(err)
		}
		if root, size, err := h.Sum(); root != Sum(p[1:]) || size != int64(len(p)-1) || err != nil {
			t.Fatal(workers, root, size, err)
		}
		if h.made > 3*workers {
			t.Fatalf("%d workers use %d batches", workers, h.made)
		}
	}
}

// failingWriter takes n bytes and then fails.
type failingWriter struct {
	n        int
	err      error
	failures int
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		w.failures++
		return 0, w.err
	}
	return len(p), nil
}

func TestHasherOutboardFails(t *testing.T) {
	full := errors.New("no room")
	p := pattern(300 * GroupSize)
	for _, room := range []int{0, 64 * ParentSize, 4 * 64 * ParentSize} {
		for workers := 1; workers <= 3; workers++ {
			w := &failingWriter{n: room, err: full}
			h := NewHasher(w, workers)
			n, err := h.ReadFrom(bytes.NewReader(p))
			if room == 0 && (!errors.Is(err, full) || n == int64(len(p))) {
				t.Fatalf("room for %d: the failure is not seen while writing: %d, %v", room, n, err)
			}
			if _, _, err := h.Sum(); !errors.Is(err, full) {
				t.Fatalf("room for %d, %d workers: Sum gave %v", room, workers, err)
			}
			if w.failures != 1 {
				t.Fatalf("written to %d times after the failure", w.failures-1)
			}
			h.Reset(nil)
			if _, err := h.Write(p); err != nil {
				t.Fatal("the error outlives Reset:", err)
			}
			if root, _, err := h.Sum(); err != nil || root != Sum(p) {
				t.Fatal(root, err)
			}
		}
	}
}

func TestHasherReadErrors(t *testing.T) {
	broken := errors.New("the other side went away")
	p := pattern(GroupSize + 5)
	h := NewHasher(nil, 1)
	if n, err := h.ReadFrom(io.MultiReader(bytes.NewReader(p), iotest.ErrReader(broken))); n != int64(len(p)) ||
		!errors.Is(err, broken) {
		t.Fatal(n, err)
	}
	cut := fmt.Errorf("the stream was cut: %w", io.EOF)
	if n, err := h.ReadFrom(iotest.ErrReader(cut)); n != 0 || err == nil {
		t.Fatal("an error that wraps EOF passes for the end")
	}
	if n, err := h.ReadFrom(idle{}); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Fatal(n, err)
	}
	if root, size, err := h.Sum(); root != Sum(p) || size != int64(len(p)) || err != nil {
		t.Fatal("what was read counts:", root, size, err)
	}
}

// idle never has anything to read.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestHasherAllocs(t *testing.T) {
	p := pattern(4*batchSize + 100)
	for _, tc := range []struct {
		name       string
		size, most int
		workers    int
	}{
		{"small", 4096, 0, 1},
		{"small, helpers allowed", 4096, 0, 4},
		{"a group", GroupSize, 0, 2},
		{"large, alone", len(p), 0, 1},
		{"large", len(p), 4, 2}, // to start one helper, whatever the size
	} {
		h := NewHasher(nil, tc.workers)
		run := func() {
			h.Reset(io.Discard)
			if _, err := h.Write(p[:tc.size]); err != nil {
				t.Fatal(err)
			}
			if _, _, err := h.Sum(); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			run() // until every batch that will be needed is there
		}
		if n := testing.AllocsPerRun(20, run); int(n) > tc.most {
			t.Errorf("%s: %v allocations, want at most %d", tc.name, n, tc.most)
		}
	}
	for _, n := range []int{0, 1, 4096, GroupSize, 3 * GroupSize} {
		if got := testing.AllocsPerRun(20, func() { Sum(p[:n]) }); got != 0 {
			t.Errorf("Sum of %d: %v allocations", n, got)
		}
	}
}
