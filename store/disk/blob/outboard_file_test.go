package blob

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
)

// countingFile counts the writes to a file, and fails them if err is set.
type countingFile struct {
	vfs.File
	writes int
	err    error
}

func (f *countingFile) WriteAt(p []byte, off int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	f.writes++
	return f.File.WriteAt(p, off)
}

// newOutboard returns an outboard in RAM, its file, and a parent for each index.
func newOutboard(t *testing.T) (*outboardFile, *countingFile, func(node int64) []byte) {
	t.Helper()
	f, err := vfs.NewMem().Create("outboard", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	counting := &countingFile{File: f}
	parent := func(node int64) []byte { return bytes.Repeat([]byte{byte(node), byte(node >> 8)}, b3.ParentSize/2) }
	return newOutboardFile(&stagedFile{f: counting, space: func(int64) error { return nil }}), counting, parent
}

// TestOutboardFile: parents that come in the order of a download are written together, and can be read
// at any time.
func TestOutboardFile(t *testing.T) {
	t.Parallel()
	const groups = 1024
	o, f, parent := newOutboard(t)
	var order []int64
	w, err := b3.NewWalk(b3.Root{}, groups*b3.GroupSize, nil)
	if err != nil {
		t.Fatal(err)
	}
	if item, _ := w.Next(); item.Node != groups-2 {
		t.Fatalf("the root is parent %d", item.Node)
	}
	var preOrder func(lo, hi int64)
	preOrder = func(lo, hi int64) {
		if hi-lo < 2 {
			return
		}
		for node := range int64(groups - 1) {
			if l, h := b3.NodeGroups(node, groups); l == lo && h == hi {
				order = append(order, node)
			}
		}
		preOrder(lo, (lo+hi)/2)
		preOrder((lo+hi)/2, hi)
	}
	preOrder(0, groups)
	written := map[int64]bool{}
	for i, node := range order {
		if _, err := o.WriteAt(parent(node), node*b3.ParentSize); err != nil {
			t.Fatal(err)
		}
		written[node] = true
		if len(o.parents) > maxParents {
			t.Fatalf("%d parents are kept", len(o.parents))
		}
		got := make([]byte, b3.ParentSize)
		for _, node := range []int64{node, order[rand.IntN(i+1)]} {
			if n, err := o.ReadAt(got, node*b3.ParentSize); n != len(got) || err != nil || !bytes.Equal(got, parent(node)) {
				t.Fatalf("parent %d: %d bytes, %v", node, n, err)
			}
		}
	}
	if err := o.flush(1); err != nil || len(o.parents) > 0 || len(written) != groups-1 {
		t.Fatal(err, len(o.parents), len(written))
	}
	if most := groups / 16; f.writes > most {
		t.Errorf("%d writes, want at most %d", f.writes, most)
	}
	all := make([]byte, (groups-1)*b3.ParentSize)
	if _, err := f.ReadAt(all, 0); err != nil {
		t.Fatal(err)
	}
	for node := range int64(groups - 1) {
		if !bytes.Equal(all[node*b3.ParentSize:][:b3.ParentSize], parent(node)) {
			t.Fatalf("parent %d is wrong in the file", node)
		}
	}
}

// TestOutboardFileReads: a read joins the file and what is kept, and ends before the first parent that
// is in neither.
func TestOutboardFileReads(t *testing.T) {
	t.Parallel()
	o, f, parent := newOutboard(t)
	write := func(node int64) {
		if _, err := o.WriteAt(parent(node), node*b3.ParentSize); err != nil {
			t.Fatal(err)
		}
	}
	read := func(n int, err error) {
		t.Helper()
		got := make([]byte, 8*b3.ParentSize)
		if m, e := o.ReadAt(got, 0); m != n*b3.ParentSize || !errors.Is(e, err) {
			t.Fatalf("%d bytes, %v; want %d parents, %v", m, e, n, err)
		}
		for node := range n {
			if !bytes.Equal(got[node*b3.ParentSize:][:b3.ParentSize], parent(int64(node))) {
				t.Errorf("parent %d is wrong", node)
			}
		}
	}
	read(0, io.EOF)
	write(0)
	if err := o.flush(1); err != nil {
		t.Fatal(err)
	}
	write(1)
	write(3)
	read(2, io.EOF)
	write(2)
	read(4, io.EOF)
	part := make([]byte, 100)
	if n, err := o.ReadAt(part, b3.ParentSize+10); n != len(part) || err != nil ||
		!bytes.Equal(part, append(parent(1), parent(2)...)[10:110]) {
		t.Errorf("a read across parents: %d, %v", n, err)
	}
	for node := int64(4); node < 8; node++ {
		write(node)
	}
	read(8, nil)

	// What cannot be written is kept.
	f.err = errors.New("the disk is full")
	if err := o.flush(1); !errors.Is(err, f.err) || len(o.parents) != 7 {
		t.Fatal(err, len(o.parents))
	}
	read(8, nil)
	f.err = nil
	if err := o.flush(1); err != nil || len(o.parents) != 0 {
		t.Fatal(err, len(o.parents))
	}
	read(8, nil)
}
