package b3

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"allium/protocols/status"
)

// memory is the object in RAM.
func (o *object) memory(t tester) *Memory {
	t.Helper()
	m, err := (*HashQueue)(nil).Memory(o.root, o.data, o.outboard)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMemoryProves: only the object's own bytes and tree become a Memory, and a
// walk over one gives them back.
func TestMemoryProves(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, GroupSize, GroupSize + 1, 4*GroupSize - 7} {
		o := newObject(t, n)
		m := o.memory(t)
		w, err := NewWalk(o.root, m.Size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, GroupSize)
		var got bytes.Buffer
		for _, more := w.Next(); more; _, more = w.Next() {
			p, err := w.Fill(m, buf)
			if err != nil {
				t.Fatal(err)
			}
			if !p.IsParent() {
				got.Write(p.Data())
			}
		}
		if !bytes.Equal(got.Bytes(), o.data) {
			t.Errorf("a walk over %d bytes gave others", n)
		}
		for _, bad := range [][]byte{append(bytes.Clone(o.data), 0), flipped(o.data, n/2)} {
			if _, err := (*HashQueue)(nil).Memory(o.root, bad, o.outboard); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d bytes of %d: %v", len(bad), n, err)
			}
		}
		for _, bad := range [][]byte{append(bytes.Clone(o.outboard), 0), flipped(o.outboard, len(o.outboard)/2)} {
			if _, err := (*HashQueue)(nil).Memory(o.root, o.data, bad); !errors.Is(err, ErrCorrupt) {
				t.Errorf("an outboard of %d bytes for %d: %v", len(bad), n, err)
			}
		}
	}
}

// TestMemoryIsHashedOnce: the reader of a Memory gives a walk its groups without hashing them again, which is seen
// when they change against the rule. A walk of another object gets nothing.
func TestMemoryIsHashedOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4 << 10, GroupSize, 4*GroupSize - 7} {
		o := newObject(t, n)
		m := o.memory(t)
		m.data[n-1] ^= 1
		r := m.Reader()
		w, err := r.Walk(nil)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, GroupSize)
		for _, more := w.Next(); more; _, more = w.Next() {
			p, err := r.Fill(w, buf)
			if err != nil || !p.Valid() {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if !p.IsParent() && !bytes.Equal(p.Data(), m.group(p.Group())) {
				t.Errorf("%d bytes: group %d is another one", n, p.Group())
			}
		}
		if !w.SizeProved() {
			t.Errorf("%d bytes: the size is not proved", n)
		}
		if _, err := r.Fill(w, buf); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes: after the last item: %v", n, err)
		}
		other, err := NewWalk(Sum([]byte("another")), int64(n), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Fill(other, buf); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: a walk of another object: %v", n, err)
		}
	}
}

// flipped is p with one bit wrong, or one byte more when it is empty.
func flipped(p []byte, at int) []byte {
	if len(p) == 0 {
		return []byte{1}
	}
	p = bytes.Clone(p)
	p[at] ^= 1
	return p
}

// TestMemoryBounds: what is asked for past the end is an error and no panic.
func TestMemoryBounds(t *testing.T) {
	t.Parallel()
	m := newObject(t, GroupSize+1).memory(t)
	for _, g := range []int64{-1, 2} {
		if _, err := m.ReadGroup(g, make([]byte, GroupSize)); status.Of(err) != status.Internal {
			t.Errorf("group %d: %v", g, err)
		}
	}
	for _, node := range []int64{-1, 1} {
		if _, err := m.ReadParents(node, make([]byte, ParentSize)); status.Of(err) != status.Internal {
			t.Errorf("parent %d: %v", node, err)
		}
	}
}

// TestMemoryReadsForNothing: reading costs no allocation but the reader's own.
func TestMemoryReadsForNothing(t *testing.T) {
	m := newObject(t, 3*GroupSize).memory(t)
	r := m.Reader()
	buf := make([]byte, GroupSize)
	if n := testing.AllocsPerRun(100, func() {
		for g := range int64(3) {
			if _, err := r.ReadGroup(g, buf); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		s := r.Section(0, -1)
		if _, err := s.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}); n > 4 {
		t.Errorf("%v allocations a section", n)
	}
}
