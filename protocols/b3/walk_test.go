package b3

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"lukechampine.com/blake3/bao"
	"pgregory.net/rapid"

	"allium/protocols/status"
)

// TestEncoding: for every boundary size, the walk over the whole object is the
// oracle's encoding, its parents are the oracle's outboard, and it decodes.
func TestEncoding(t *testing.T) {
	for _, n := range sizes() {
		o := newObject(t, n)
		if int64(len(o.outboard)) != OutboardSize(o.size()) || len(o.outboard) != len(o.preorder) {
			t.Fatalf("size %d: the outboard has %d bytes", n, len(o.outboard))
		}
		w, err := NewWalk(o.root, o.size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var all, parents []byte
		for _, e := range encode(t, w, o.source()) {
			all = append(all, e.data...)
			if e.Parent {
				parents = append(parents, e.data...)
			}
		}
		if !w.SizeProved() {
			t.Fatalf("size %d is not proved by the whole object", n)
		}
		want, _ := bao.EncodeBuf(o.data, group, false)
		if !bytes.Equal(all, want[8:]) {
			t.Fatalf("size %d: the encoding differs", n)
		}
		if !bytes.Equal(parents, o.preorder) {
			t.Fatalf("size %d: the outboard differs", n)
		}
		if !bao.VerifyBuf(slices.Concat(want[:8], all), nil, group, o.root) {
			t.Fatalf("size %d: the oracle refuses the encoding", n)
		}
	}
}

// TestRanges is a property: whatever ranges are asked of whatever size, the
// items are those of the reference, they prove themselves to a receiver that has
// nothing else, and the size is proved exactly when the last group is among them.
func TestRanges(t *testing.T) {
	var objects [18]*object // made once per size class
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.IntRange(0, len(objects)-1).Draw(t, "class")
		if objects[class] == nil {
			objects[class] = newObject(t, max(0, class*GroupSize/2+[]int{-1, 0, 1}[class%3]))
		}
		o := objects[class]
		limit := o.size() + GroupSize
		offset := rapid.OneOf(rapid.Int64Range(0, limit),
			rapid.Map(rapid.Int64Range(0, limit/GroupSize), func(g int64) int64 { return g * GroupSize }))
		var ranges []Range
		for range rapid.IntRange(0, 5).Draw(t, "ranges") {
			r := Range{offset.Draw(t, "start"), offset.Draw(t, "end")}
			if r.End < r.Start {
				r.Start, r.End = r.End, r.Start
			}
			if rapid.IntRange(0, 9).Draw(t, "to the end") == 0 {
				r.End = -1
			}
			ranges = append(ranges, r)
		}
		w, err := NewWalk(o.root, o.size(), ranges)
		if err != nil {
			t.Fatal(err)
		}
		want := o.reference(func(g int64) bool { return selects(ranges, o.size(), g) })
		got := encode(t, w, o.source())
		if !slices.EqualFunc(got, want, same) {
			t.Fatalf("%v of %d: got %d items, want %d", ranges, o.size(), len(got), len(want))
		}
		receiver, err := NewWalk(o.root, o.size(), ranges)
		if err != nil {
			t.Fatal(err)
		}
		last := false
		for _, e := range got {
			item, _ := receiver.Next()
			p, err := receiver.Accept(e.data)
			if err != nil {
				t.Fatal(err)
			}
			checkProved(t, receiver, item, e.data, p)
			last = last || !e.Parent && e.Group == Groups(o.size())-1
			if receiver.SizeProved() != last {
				t.Fatalf("after %s, size proved is %v", e.Item, receiver.SizeProved())
			}
		}
		if _, ok := receiver.Next(); ok {
			t.Fatal("the receiver waits for more")
		}
		// One range is also the oracle's slice.
		if len(ranges) == 1 && ranges[0].End >= 0 && ranges[0].Start < ranges[0].End && ranges[0].End <= o.size() {
			enc, _ := bao.EncodeBuf(o.data, group, false)
			var slice bytes.Buffer
			r := ranges[0]
			if err := bao.ExtractSlice(&slice, bytes.NewReader(enc), nil, group, uint64(r.Start),
				uint64(r.End-r.Start)); err != nil {
				t.Fatal(err)
			}
			var all []byte
			for _, e := range got {
				all = append(all, e.data...)
			}
			if !bytes.Equal(all, slice.Bytes()[8:]) {
				t.Fatalf("%v of %d: the oracle's slice differs", r, o.size())
			}
		}
	})
}

// selects says, byte ranges against byte ranges, whether group g is asked for.
func selects(ranges []Range, size, g int64) bool {
	lo, hi := g*GroupSize, min((g+1)*GroupSize, size)
	for _, r := range ranges {
		if r == (Range{0, -1}) {
			return true
		}
		end := r.End
		if end == -1 {
			end = size
		}
		if max(r.Start, lo) < min(end, hi) {
			return true
		}
	}
	return len(ranges) == 0
}

func TestRangeEdges(t *testing.T) {
	const g = GroupSize
	for _, tc := range []struct {
		name   string
		size   int64
		ranges []Range
		want   []span
	}{
		{"the whole empty object", 0, nil, []span{{0, 1}}},
		{"the empty object to its end", 0, []Range{{0, -1}}, []span{{0, 1}}},
		{"past the end of the empty object", 0, []Range{{0, 10}}, nil},
		{"nothing", 5 * g, []Range{{7, 7}}, nil},
		{"nothing at 0", 5 * g, []Range{{0, 0}}, nil},
		{"at the end", 5 * g, []Range{{5 * g, -1}}, nil},
		{"past the end", 5 * g, []Range{{6 * g, 9 * g}}, nil},
		{"across the end", 5 * g, []Range{{5*g - 1, 9 * g}}, []span{{4, 5}}},
		{"far across the end", 5*g + 1, []Range{{0, 1<<63 - 1}}, []span{{0, 6}}},
		{"one byte", 5 * g, []Range{{g, g + 1}}, []span{{1, 2}}},
		{"a group", 5 * g, []Range{{g, 2 * g}}, []span{{1, 2}}},
		{"two bytes of two groups", 5 * g, []Range{{g - 1, g + 1}}, []span{{0, 2}}},
		{"sorted and merged", 9 * g, []Range{{7 * g, 7*g + 1}, {0, 1}, {g, g + 1}, {0, 5}, {5 * g, 6 * g}},
			[]span{{0, 2}, {5, 6}, {7, 8}}},
		{"one inside another", 9 * g, []Range{{0, 8 * g}, {2 * g, 3 * g}}, []span{{0, 8}}},
		{"the end of the largest", MaxSize, []Range{{MaxSize - 1, -1}}, []span{{1<<46 - 1, 1 << 46}}},
	} {
		got, err := spans(tc.size, tc.ranges)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
	for _, r := range []Range{{-1, 5}, {0, -2}, {5, 4}, {-1, -1}, {1 << 62, 1}} {
		if _, err := NewWalk(Root{}, 100, []Range{{0, 1}, r}); status.Of(err) != status.BadRange {
			t.Errorf("%v: %v", r, err)
		}
	}
	for _, size := range []int64{-1, MaxSize + 1, 1<<63 - 1} {
		if _, err := NewWalk(Root{}, size, nil); status.Of(err) != status.Upstream {
			t.Errorf("size %d: %v", size, err)
		}
		if _, err := (*HashQueue)(nil).SizeProof(Root{}, size); status.Of(err) != status.Upstream {
			t.Errorf("size proof of %d: %v", size, err)
		}
	}
}

// TestRangesAreTheCallers: a walk does not sort its caller's slice.
func TestRangesAreTheCallers(t *testing.T) {
	ranges := []Range{{5, 6}, {1, 2}}
	if _, err := NewWalk(Root{}, 1<<20, ranges); err != nil || ranges[0].Start != 5 {
		t.Fatal(ranges, err)
	}
}

func TestSizeProof(t *testing.T) {
	for _, n := range sizes() {
		o := newObject(t, n)
		w, err := (*HashQueue)(nil).SizeProof(o.root, o.size())
		if err != nil {
			t.Fatal(err)
		}
		last := Groups(o.size()) - 1
		got := encode(t, w, o.source())
		if want := o.reference(func(g int64) bool { return g == last }); !slices.EqualFunc(got, want, same) ||
			!w.SizeProved() {
			t.Fatalf("size %d: got %d items, want %d; proved %v", n, len(got), len(want), w.SizeProved())
		}
	}
}

// TestFailedWalk: a walk that refused something stays where it is, for good.
func TestFailedWalk(t *testing.T) {
	o := newObject(t, 3*GroupSize)
	w, err := NewWalk(o.root, o.size(), nil)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := w.Next()
	_, first := w.Accept(o.preorder[64:128])
	if !errors.Is(first, ErrCorrupt) || status.Of(first) != status.Corrupt ||
		!strings.Contains(first.Error(), "parent 1") {
		t.Fatal(first)
	}
	if p, err := w.Accept(o.preorder[:64]); !errors.Is(err, first) || p.Valid() {
		t.Fatal("the right bytes came too late, but were taken:", err)
	}
	if p, err := w.Fill(o.source(), make([]byte, GroupSize)); !errors.Is(err, first) || p.Valid() {
		t.Fatal("Fill after a failure:", err)
	}
	if item, ok := w.Next(); !ok || item != before {
		t.Fatal("a failed walk must not look done")
	}
}

func TestTooMuch(t *testing.T) {
	o := newObject(t, 10)
	w, err := NewWalk(o.root, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Accept(o.data); err != nil {
		t.Fatal(err)
	}
	_, first := w.Accept([]byte{1})
	if !errors.Is(first, ErrCorrupt) {
		t.Fatal(first)
	}
	if _, err := w.Fill(o.source(), nil); !errors.Is(err, first) {
		t.Fatal("the failure is forgotten:", err)
	}
}

func TestWrongLength(t *testing.T) {
	o := newObject(t, 2*GroupSize+5)
	for _, n := range []int{0, 1, 63, 65, 128, GroupSize} {
		w, err := NewWalk(o.root, o.size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Accept(make([]byte, n)); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a parent of %d bytes: %v", n, err)
		}
	}
}

// brokenSource fails with err, or gives the first n bytes of things.
type brokenSource struct {
	Source
	n   int
	err error
}

func (b *brokenSource) ReadGroup(g int64, p []byte) (int, error) {
	n, _ := b.Source.ReadGroup(g, p)
	return min(n, b.n), b.err
}

func (b *brokenSource) ReadParents(node int64, p []byte) (int, error) {
	if n, err := b.Source.ReadParents(node, p); err != nil || b.n >= ParentSize {
		return n, err
	}
	return 0, b.err
}

func TestFillErrors(t *testing.T) {
	o := newObject(t, GroupSize+100)
	buf := make([]byte, GroupSize)
	fresh := func() *Walk {
		w, err := NewWalk(o.root, o.size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}

	// An error that is not about the bytes leaves the walk usable.
	w, failure := fresh(), errors.New("the disk is on fire")
	if _, err := w.Fill(&brokenSource{o.source(), 0, failure}, buf); !errors.Is(err, failure) ||
		errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if _, err := w.Fill(o.source(), buf[:63]); !errors.Is(err, io.ErrShortBuffer) {
		t.Fatal(err)
	}
	if got := encode(t, w, o.source()); len(got) != 3 {
		t.Fatalf("%d items", len(got))
	}

	// Bytes that end early are corrupt, however the source says it.
	for _, e := range []error{nil, io.EOF, io.ErrUnexpectedEOF} {
		w := fresh()
		if _, err := w.Fill(o.source(), buf); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Fill(&brokenSource{o.source(), GroupSize - 1, e}, buf); !errors.Is(err, ErrCorrupt) {
			t.Fatal(e, err)
		}
	}
	if _, err := fresh().Fill(&brokenSource{o.source(), 0, io.ErrUnexpectedEOF}, buf); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}

	// A full read may come with EOF.
	w = fresh()
	for range 3 {
		if _, err := w.Fill(&brokenSource{o.source(), GroupSize, io.EOF}, buf); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHuge: a claimed size costs nothing, and a range of the largest object is
// as deep as it must be.
func TestHuge(t *testing.T) {
	for _, size := range []int64{1 << 40, MaxSize - 1, MaxSize} {
		for _, r := range []Range{{0, 1}, {size / 2, size/2 + 1}, {size - 1, -1}} {
			var w *Walk
			var err error
			allocs := testing.AllocsPerRun(10, func() { w, err = NewWalk(Root{1}, size, []Range{r}) })
			if err != nil || allocs > 5 || cap(w.path) > maxDepth {
				t.Fatalf("%d: %v allocations, path of %d, %v", size, allocs, cap(w.path), err)
			}
			if item, ok := w.Next(); !ok || !item.Parent || item.Node != Groups(size)-2 {
				t.Fatalf("%d: %+v", size, item)
			}
			if _, err := w.Accept(make([]byte, ParentSize)); !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		}
	}
}

// TestDeepWalk goes down a tree of 2^46 groups that was built around one group.
func TestDeepWalk(t *testing.T) {
	const target = 1<<45 + 12345
	data := pattern(GroupSize)
	cv := groupCV(data, target, false)
	var parents [][ParentSize]byte // from the bottom
	for lo, hi := int64(target), int64(target+1); hi-lo < 1<<46; {
		var p [ParentSize]byte
		size := hi - lo
		if lo&size == 0 {
			copy(p[:Size], cv[:])
			hi += size
		} else {
			copy(p[Size:], cv[:])
			lo -= size
		}
		parents = append(parents, p)
		cv = parentCV(&p, hi-lo == 1<<46)
	}
	w, err := NewWalk(cv, MaxSize, []Range{{target * GroupSize, target*GroupSize + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for i := len(parents) - 1; i >= 0; i-- {
		if _, err := w.Accept(parents[i][:]); err != nil {
			t.Fatal(err)
		}
	}
	p, err := w.Accept(data)
	if err != nil || p.Offset() != target*GroupSize {
		t.Fatal(p.Offset(), err)
	}
	if _, ok := w.Next(); ok || len(parents) != 46 {
		t.Fatal("the walk goes on")
	}
}

func TestWalkAllocs(t *testing.T) {
	o := newObject(t, 33*GroupSize)
	src, buf := o.source(), make([]byte, GroupSize)
	w, err := NewWalk(o.root, o.size(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(50, func() {
		if _, err := w.Fill(src, buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per item, want 0", n)
	}
	small := Sum(nil)
	if n := testing.AllocsPerRun(50, func() { w, _ = NewWalk(small, 0, nil) }); n > 2 {
		t.Errorf("%v allocations for a walk over a small object, want 2", n)
	}
}
