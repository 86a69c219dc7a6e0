package b3

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"lukechampine.com/blake3/bao"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester is what the helpers need of *testing.T and of *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// group is the group size as the oracle writes it: 2^6 chunks.
const group = 6

// pattern is the input of the official vectors: 0…250, repeated. No two groups
// of a test's size are equal, because 251 does not divide GroupSize.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return p
}

// sizes are the boundaries that matter: of blocks, chunks, what the kernels take
// at once, groups, and of trees of up to 33 groups.
var sizes = sync.OnceValue(func() []int {
	out := []int{0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 8191, 8192, 8193, 16383, 16384, 16385, 20000, 49152,
		49153}
	for _, groups := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33} {
		for _, d := range []int{-1024, -1, 0, 1, 1025} {
			out = append(out, groups*GroupSize+d)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
})

// object is an object with what the oracle says of it.
type object struct {
	root     Root
	data     []byte
	preorder []byte // parents
	outboard []byte // ours
}

func newObject(t tester, size int) *object {
	t.Helper()
	o := &object{data: pattern(size)}
	enc, root := bao.EncodeBuf(o.data, group, true)
	o.preorder, o.root = enc[8:], root
	var out bytes.Buffer
	h := NewHasher(&out, 1)
	if _, err := h.Write(o.data); err != nil {
		t.Fatal(err)
	}
	got, n, err := h.Sum()
	if err != nil || got != o.root || n != int64(size) {
		t.Fatalf("size %d: got %s, %d, %v, want %s", size, got, n, err, o.root)
	}
	o.outboard = out.Bytes()
	return o
}

func (o *object) size() int64 { return int64(len(o.data)) }

func (o *object) source() Source {
	return FileSource(bytes.NewReader(o.data), bytes.NewReader(o.outboard), o.size())
}

// entry is an item with its bytes.
type entry struct {
	Item
	data []byte
}

// reference is the walk over the groups that want selects, by recursion over the
// oracle's parents.
func (o *object) reference(want func(g int64) bool) []entry {
	var out []entry
	n, next := Groups(o.size()), 0
	var rec func(lo, hi int64)
	rec = func(lo, hi int64) {
		selected := false
		for g := lo; g < hi; g++ {
			selected = selected || want(g)
		}
		if hi-lo == 1 {
			if selected {
				p := o.data[lo*GroupSize : min((lo+1)*GroupSize, o.size())]
				out = append(out, entry{Item{Group: lo, Len: len(p)}, p})
			}
			return
		}
		p := o.preorder[next : next+ParentSize]
		next += ParentSize
		if selected {
			out = append(out, entry{Item{Parent: true, Node: nodeIndex(lo, hi, n), Len: ParentSize}, p})
		}
		half := int64(1)
		for half*2 < hi-lo {
			half *= 2
		}
		rec(lo, lo+half)
		rec(lo+half, hi)
	}
	rec(0, n)
	return out
}

// encode runs w over src to its end.
func encode(t tester, w *Walk, src Source) []entry {
	t.Helper()
	var out []entry
	for {
		item, ok := w.Next()
		if !ok {
			if _, err := w.Fill(src, nil); !errors.Is(err, io.EOF) {
				t.Fatalf("a walk that is done: %v", err)
			}
			return out
		}
		buf := make([]byte, item.Len)
		p, err := w.Fill(src, buf)
		if err != nil {
			t.Fatal(err)
		}
		checkProved(t, w, item, buf, p)
		out = append(out, entry{item, buf})
	}
}

func checkProved(t tester, w *Walk, item Item, data []byte, p Proved) {
	t.Helper()
	if !p.Valid() || p.Root() != w.root || p.Size() != w.Size() || p.SizeProved() != w.SizeProved() ||
		p.IsParent() != item.Parent || p.Node() != item.Node || p.Group() != item.Group ||
		p.Offset() != item.Group*GroupSize ||
		!bytes.Equal(p.Data(), data) || len(data) != item.Len {
		t.Fatalf("%s: got %+v of %+v", item, p, w)
	}
}

func same(a, b entry) bool { return a.Item == b.Item && bytes.Equal(a.data, b.data) }
