package b3

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestSuspendAndResume is a property: however often an object is suspended, wherever, and
// resumed by whichever Hasher, root and outboard are the same.
func TestSuspendAndResume(t *testing.T) {
	var objects [14]*object
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.IntRange(0, len(objects)-1).Draw(t, "class")
		if objects[class] == nil {
			objects[class] = newObject(t, max(0, class*GroupSize+[]int{0, 1, -1, 1000}[class%4]))
		}
		o := objects[class]
		outboard := make([]byte, 0, len(o.outboard))
		hashers := []*Hasher{NewHasher(nil, 1), NewHasher(nil, 2)}
		var state HasherState
		for at := 0; at < len(o.data); {
			n := min(len(o.data)-at, rapid.OneOf(rapid.IntRange(1, 3*batchSize),
				rapid.SampledFrom([]int{1, GroupSize, batchSize})).Draw(t, "n"))
			out := bytes.NewBuffer(outboard[:state.OutboardSize()])
			h := hashers[rapid.IntRange(0, 1).Draw(t, "hasher")]
			h.Resume(out, state)
			from := int(state.Size())
			var err error
			if rapid.Bool().Draw(t, "read") {
				_, err = h.ReadFrom(bytes.NewReader(o.data[from : at+n]))
			} else {
				_, err = h.Write(o.data[from : at+n])
			}
			if err != nil {
				t.Fatal(err)
			}
			at += n
			if state, err = h.Suspend(); err != nil {
				t.Fatal(err)
			}
			outboard = out.Bytes()
			if left := at - int(state.Size()); left < 0 || left > GroupSize ||
				int(state.OutboardSize()) != len(outboard) {
				t.Fatalf("after %d bytes the state has %d, and %d of %d bytes of the outboard", at, state.Size(),
					state.OutboardSize(),
					len(outboard))
			}
		}
		out := bytes.NewBuffer(outboard)
		h := hashers[0]
		h.Resume(out, state)
		if _, err := h.Write(o.data[state.Size():]); err != nil {
			t.Fatal(err)
		}
		root, size, err := h.Sum()
		if err != nil || root != o.root || size != o.size() || !bytes.Equal(out.Bytes(), o.outboard) {
			t.Fatalf("%d bytes: got %s, %d, %v, outboard of %d bytes", o.size(), root, size, err, out.Len())
		}
	})
}

// TestSuspendEnds: what was suspended takes nothing more, and an outboard that
// cannot be written is told.
func TestSuspendEnds(t *testing.T) {
	h := NewHasher(nil, 2)
	if _, err := h.Write(make([]byte, 3*batchSize)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Suspend(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write(make([]byte, 1)); !errors.Is(err, errFinished) {
		t.Errorf("write after suspend: %v", err)
	}
	if _, _, err := h.Sum(); !errors.Is(err, errFinished) {
		t.Errorf("sum after suspend: %v", err)
	}
	if _, err := h.Suspend(); !errors.Is(err, errFinished) {
		t.Errorf("suspend after suspend: %v", err)
	}
	h.Reset(failing{})
	if _, err := h.Write(make([]byte, 9*GroupSize)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Suspend(); !errors.Is(err, errFailing) {
		t.Errorf("suspend with a broken outboard: %v", err)
	}
}

var errFailing = errors.New("the outboard cannot be written")

// failing is a writer that fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }
