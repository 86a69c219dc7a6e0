package b3

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"allium/protocols/status"
)

// left returns the number of bytes not yet read.
func (s *Section) left() int64 { return max(0, s.end-s.off) }

// TestReadAt is a property: a Reader over sound storage reads as bytes.Reader
// does.
func TestReadAt(t *testing.T) {
	var objects [10]*object
	var readers [10]*Reader
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.IntRange(0, len(objects)-1).Draw(t, "class")
		if objects[class] == nil {
			o := newObject(t, max(0, class*GroupSize/2+[]int{-1, 0, 1}[class%3]))
			objects[class], readers[class] = o, NewReader(o.root, o.size(), o.source())
		}
		o, r := objects[class], readers[class]
		if rapid.Bool().Draw(t, "memory") {
			r = o.memory(t).Reader()
		}
		off := rapid.Int64Range(0, o.size()+10).Draw(t, "off")
		n := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(0, 4*GroupSize)).Draw(t, "n")
		want, got := make([]byte, n), make([]byte, n)
		wantN, wantErr := bytes.NewReader(o.data).ReadAt(want, off)
		gotN, gotErr := r.ReadAt(got, off)
		if n == 0 {
			wantErr = gotErr // bytes.Reader gives EOF for nothing at the end
		}
		if gotN != wantN || !errors.Is(gotErr, wantErr) || !bytes.Equal(got[:gotN], want[:wantN]) {
			t.Fatalf("%d bytes at %d of %d: got %d, %v, want %d, %v", n, off, o.size(), gotN, gotErr, wantN, wantErr)
		}
	})
}

func TestSection(t *testing.T) {
	for _, n := range []int{0, 1, GroupSize - 1, GroupSize, GroupSize + 1, 3*GroupSize + 5} {
		o := newObject(t, n)
		for _, r := range []*Reader{NewReader(o.root, o.size(), o.source()), o.memory(t).Reader()} {
			testSection(t, o, r)
		}
	}
}

func testSection(t *testing.T, o *object, r *Reader) {
	t.Helper()
	n := o.size()
	if r.Size() != o.size() || r.Root() != o.root {
		t.Fatal(r.Size(), r.Root())
	}
	for _, ends := range [][2]int64{{0, -1}, {0, 0}, {0, 1}, {1, 3}, {GroupSize - 1, GroupSize + 1}, {GroupSize, -1},
		{100, 2*GroupSize + 100}, {o.size(), -1}, {o.size() + 5, o.size() + 9}, {0, 1<<63 - 1}} {
		from := min(ends[0], o.size())
		to := min(ends[1], o.size())
		if ends[1] == -1 {
			to = o.size()
		}
		want := o.data[from:max(from, to)]
		s := r.Section(ends[0], ends[1])
		if s.left() != int64(len(want)) {
			t.Fatalf("%v of %d: %d bytes are left, want %d", ends, n, s.left(), len(want))
		}
		if err := iotest.TestReader(s, want); err != nil {
			t.Fatalf("%v of %d: %v", ends, n, err)
		}
		s.Close()
		s = r.Section(ends[0], ends[1])
		var got bytes.Buffer
		if n, err := s.WriteTo(&got); err != nil || n != int64(len(want)) || !bytes.Equal(got.Bytes(), want) ||
			s.left() != 0 {
			t.Fatalf("%v: WriteTo gave %d, %v", ends, n, err)
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("%v: after the end: %d, %v", ends, n, err)
		}
		s.Close()
		s.Close()
		if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errSectionClosed) {
			t.Fatalf("%v: after Close: %d, %v", ends, n, err)
		}
		if n, err := s.WriteTo(io.Discard); n != 0 || !errors.Is(err, errSectionClosed) {
			t.Fatalf("%v: WriteTo after Close: %d, %v", ends, n, err)
		}
	}
	bad := r.Section(5, 4)
	if _, err := bad.Read(make([]byte, 1)); status.Of(err) != status.BadRange || bad.left() != 0 {
		t.Fatal(err)
	}
	bad.Close()
}

// TestSectionMixed: WriteTo goes on where Read stopped.
func TestSectionMixed(t *testing.T) {
	o := newObject(t, 2*GroupSize+10)
	s := NewReader(o.root, o.size(), o.source()).Section(3, -1)
	defer s.Close()
	head := make([]byte, 7)
	if _, err := io.ReadFull(s, head); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	if n, err := s.WriteTo(&rest); err != nil || n != o.size()-10 ||
		!bytes.Equal(append(head, rest.Bytes()...), o.data[3:]) {
		t.Fatal(n, err)
	}
}

func TestSectionWriteFails(t *testing.T) {
	o := newObject(t, 3*GroupSize)
	r := NewReader(o.root, o.size(), o.source())
	full := errors.New("no room")
	s := r.Section(0, -1)
	defer s.Close()
	if n, err := s.WriteTo(&failingWriter{n: GroupSize, err: full}); n != GroupSize || !errors.Is(err, full) {
		t.Fatal(n, err)
	}
	if s.left() != 2*GroupSize {
		t.Fatal(s.left())
	}
}

// TestEmptyIsProved: that an object is empty is a claim like any other.
func TestEmptyIsProved(t *testing.T) {
	r := NewReader(Sum([]byte("not empty")), 0, FileSource(nil, nil, 0))
	s := r.Section(0, -1)
	defer s.Close()
	if _, err := io.ReadAll(s); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if _, err := r.ReadGroup(0, nil); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	r = NewReader(Sum(nil), 0, FileSource(nil, nil, 0))
	if p, err := r.ReadGroup(0, nil); err != nil || len(p) != 0 {
		t.Fatal(p, err)
	}
}

func TestReaderRefuses(t *testing.T) {
	o := newObject(t, 2*GroupSize)
	r := NewReader(o.root, o.size(), o.source())
	buf := make([]byte, GroupSize)
	for _, g := range []int64{-1, 2, 1 << 60} {
		if _, err := r.ReadGroup(g, buf); status.Of(err) != status.BadRange {
			t.Fatalf("group %d: %v", g, err)
		}
	}
	if _, err := r.ReadGroup(0, buf[:0:100]); !errors.Is(err, io.ErrShortBuffer) {
		t.Fatal(err)
	}
	if _, err := r.ReadAt(buf, -1); status.Of(err) != status.BadRange {
		t.Fatal(err)
	}
	for _, size := range []int64{-5, MaxSize + 1} {
		r := NewReader(o.root, size, o.source())
		if _, err := r.ReadGroup(0, buf); status.Of(err) != status.BadRange {
			t.Fatalf("size %d: %v", size, err)
		}
		s := r.Section(0, -1)
		if _, err := s.Read(buf); status.Of(err) != status.Upstream {
			t.Fatalf("size %d: %v", size, err)
		}
		s.Close()
	}
	src := o.source()
	if _, err := src.ReadGroup(2, buf); status.Of(err) != status.Internal {
		t.Fatal(err)
	}
	if _, err := src.ReadParents(1, make([]byte, ParentSize)); status.Of(err) != status.Internal {
		t.Fatal(err)
	}
}

// TestFileSourceStopsAtSize: a file that goes on after the object does not.
func TestFileSourceStopsAtSize(t *testing.T) {
	src := FileSource(bytes.NewReader(pattern(3*GroupSize)), nil, 2*GroupSize-10)
	buf := make([]byte, 2*GroupSize)
	for g, want := range []int{GroupSize, GroupSize - 10} {
		if n, err := src.ReadGroup(int64(g), buf); n != want || err != nil {
			t.Fatalf("group %d: %d, %v", g, n, err)
		}
	}
}

// countingSource counts what is read.
type countingSource struct {
	Source
	groups, parents, parentReads atomic.Int64
}

func (c *countingSource) ReadGroup(g int64, p []byte) (int, error) {
	c.groups.Add(1)
	return c.Source.ReadGroup(g, p)
}

func (c *countingSource) ReadParents(node int64, p []byte) (int, error) {
	n, err := c.Source.ReadParents(node, p)
	c.parentReads.Add(1)
	c.parents.Add(int64(n))
	return n, err
}

// TestParentsAreReadInBlocks: whoever reads a whole object reads the parents of 64 groups at once.
func TestParentsAreReadInBlocks(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 64, 65, 66, 127, 200, 256} {
		o := newObject(t, n*GroupSize-1)
		walked, read := &countingSource{Source: o.source()}, &countingSource{Source: o.source()}
		w, err := NewWalk(o.root, o.size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for buf, more := make([]byte, GroupSize), true; more; _, more = w.Next() {
			if _, err := w.Fill(walked, buf); err != nil {
				t.Fatal(err)
			}
		}
		if w.block != nil {
			t.Errorf("%d groups: the walk ended and has its block", n)
		}
		r := NewReader(o.root, o.size(), read)
		for g := range int64(n) {
			if _, err := r.ReadGroup(g, make([]byte, GroupSize)); err != nil {
				t.Fatal(err)
			}
		}
		for _, src := range []*countingSource{walked, read} {
			most := int64(2*((n+blockParents-1)/blockParents) + 1)
			if reads := src.parentReads.Load(); reads > most {
				t.Errorf("%d groups: %d reads of parents, want at most %d", n, reads, most)
			}
		}
	}
}

// TestPathIsKept: reading group after group reads every parent once, and a jump
// reads no more than the tree is deep.
func TestPathIsKept(t *testing.T) {
	const n = 37
	o := newObject(t, n*GroupSize)
	src := &countingSource{Source: o.source()}
	r := NewReader(o.root, o.size(), src)
	buf := make([]byte, GroupSize)
	read := func(g int64) {
		t.Helper()
		p, err := r.ReadGroup(g, buf)
		if err != nil || !bytes.Equal(p, o.data[g*GroupSize:(g+1)*GroupSize]) {
			t.Fatal(g, err)
		}
	}
	for g := range int64(n) {
		read(g)
	}
	if src.parents.Load() != n-1 || src.groups.Load() != n {
		t.Fatalf("%d parents and %d groups for %d groups", src.parents.Load(), src.groups.Load(), n)
	}
	for _, g := range []int64{0, 36, 0, 1, 1, 31, 32, 17, 16} {
		before := src.parents.Load()
		read(g)
		if got := src.parents.Load() - before; got > int64(bits.Len(n-1)) {
			t.Fatalf("group %d took %d parents", g, got)
		}
	}
	before := src.parents.Load()
	read(16)
	if src.parents.Load() != before {
		t.Fatal("the path of the same group was read again")
	}
}

// TestReaderRecovers: damage to one group leaves the others readable, and a
// repair is seen.
func TestReaderRecovers(t *testing.T) {
	o := newObject(t, 4*GroupSize)
	r := NewReader(o.root, o.size(), o.source())
	buf := make([]byte, GroupSize)
	o.data[GroupSize+5] ^= 1
	for range 2 {
		for g := range int64(4) {
			if _, err := r.ReadGroup(g, buf); errors.Is(err, ErrCorrupt) != (g == 1) {
				t.Fatal(g, err)
			}
		}
	}
	o.data[GroupSize+5] ^= 1
	if _, err := r.ReadGroup(1, buf); err != nil {
		t.Fatal(err)
	}
}

func TestReaderConcurrent(t *testing.T) {
	o := newObject(t, 9*GroupSize+9)
	r := NewReader(o.root, o.size(), o.source())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			p := make([]byte, 30000)
			for off := int64(i) * 7000; off < o.size(); off += 40000 {
				n, err := r.ReadAt(p, off)
				if err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(p[:n], o.data[off:off+int64(n)]) {
					t.Error(off, n, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestReaderAllocs(t *testing.T) {
	o := newObject(t, 9*GroupSize+9)
	r := NewReader(o.root, o.size(), o.source())
	buf := make([]byte, GroupSize)
	g := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		g = (g*5 + 3) % 10
		if _, err := r.ReadGroup(g, buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("ReadGroup: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := r.ReadAt(buf[:1000], 5*GroupSize-500); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("ReadAt: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		s := r.Section(0, -1)
		if _, err := s.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}); n > 10 {
		t.Errorf("Section: %v allocations", n)
	}
}
