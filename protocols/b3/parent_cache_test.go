package b3

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// sparseObject is the tree of an object of n full groups of which only those in
// real are there, each of the same bytes. It costs no hashing of the others.
type sparseObject struct {
	root     Root
	group    []byte
	outboard bytes.Buffer
}

func newSparseObject(n int64, real []int64) *sparseObject {
	o := &sparseObject{group: pattern(GroupSize)}
	there := map[int64]bool{}
	for _, g := range real {
		there[g] = true
	}
	s := &treeBuilder{out: &outboardWriter{w: &o.outboard}}
	for g := range n {
		cv := [Size]byte{byte(g), byte(g >> 8), byte(g >> 16)}
		if there[g] {
			cv = groupCV(o.group, g, false)
		}
		s.push(cv)
	}
	o.root = s.root()
	s.out.flush()
	return o
}

// ReadAt implements [io.ReaderAt] over the groups that are there.
func (o *sparseObject) ReadAt(p []byte, off int64) (int, error) {
	return copy(p, o.group[off%GroupSize:]), nil
}

func (o *sparseObject) source(n int64) *countingSource {
	return &countingSource{Source: FileSource(o, bytes.NewReader(o.outboard.Bytes()), n*GroupSize)}
}

// TestProofSize: 64 KiB of 1 GiB cost 14 parents, 896 bytes.
func TestProofSize(t *testing.T) {
	const n = 1 << 30 / GroupSize
	real := []int64{0, 1, 77, n/2 - 1, n / 2, 12345, n - 1}
	o := newSparseObject(n, real)
	for _, g := range real {
		w, err := NewWalk(o.root, n*GroupSize, []Range{{g * GroupSize, (g + 1) * GroupSize}})
		if err != nil {
			t.Fatal(err)
		}
		var proof, data int
		for _, e := range encode(t, w, o.source(n)) {
			if e.Parent {
				proof += len(e.data)
			} else {
				data += len(e.data)
			}
		}
		if proof > 896 || data != GroupSize {
			t.Errorf("group %d: %d bytes of proof for %d bytes", g, proof, data)
		}
	}
}

// TestParentCacheReadOnce: whatever the shape of the tree and the order of the reads,
// each parent of the levels that are kept is read once, and stands in the place
// of no other.
func TestParentCacheReadOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := int64(2); n < 40; n++ {
		o := newObject(t, int(n*GroupSize-5))
		src := &countingSource{Source: o.source()}
		r := NewReader(o.root, o.size(), src)
		r.countTopParents(cacheSlots(n))
		if r.parents.Load() == nil {
			t.Fatal("no parent cache")
		}
		buf := make([]byte, GroupSize)
		for range 3 {
			for _, g := range rnd.Perm(int(n)) {
				p, err := r.ReadGroup(int64(g), buf)
				if err != nil || !bytes.Equal(p, o.data[g*GroupSize:min(len(o.data), (g+1)*GroupSize)]) {
					t.Fatalf("group %d of %d: %v", g, n, err)
				}
			}
		}
		if got := src.parents.Load(); got != n-1 {
			t.Errorf("%d groups: %d parents were read", n, got)
		}
	}
}

// TestParentCacheMadeByRandomReads: one pass over an object keeps nothing; reads at
// random do, and then cost the parents below the cached levels alone.
func TestParentCacheMadeByRandomReads(t *testing.T) {
	const n, below = 1 << 14, 14 - cachedLevels
	var real []int64
	for g := int64(0); g < n; g += 61 {
		real = append(real, g)
	}
	o := newSparseObject(n, real)
	src := o.source(n)
	r := NewReader(o.root, n*GroupSize, src)
	buf := make([]byte, GroupSize)
	read := func(g int64) (parentReads int64) {
		t.Helper()
		before := src.parentReads.Load()
		if _, err := r.ReadGroup(g, buf); err != nil {
			t.Fatal(err)
		}
		return src.parentReads.Load() - before
	}
	for _, g := range real {
		read(g)
	}
	if r.parents.Load() != nil {
		t.Fatal("one pass made a parent cache")
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := 0; r.parents.Load() == nil; i++ {
		if i == 2<<cachedLevels {
			t.Fatal("reads at random made no parent cache")
		}
		read(real[rnd.IntN(len(real))])
	}
	for _, g := range real { // fills them
		read(g)
	}
	for range 100 {
		if got := read(real[rnd.IntN(len(real))]); got > below {
			t.Fatalf("a read took %d reads of parents, want at most %d", got, below)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() { read(real[rnd.IntN(len(real))]) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestParentCacheTakeWhatIsProved: a parent that is damaged when it is read for the
// first time fails the read and is not kept.
func TestParentCacheTakeWhatIsProved(t *testing.T) {
	const n = 13
	o := newObject(t, n*GroupSize)
	buf := make([]byte, GroupSize)
	for node := range n - 1 {
		r := NewReader(o.root, o.size(), o.source())
		r.countTopParents(cacheSlots(n))
		lo, hi := NodeGroups(int64(node), n)
		o.outboard[node*ParentSize+3] ^= 4
		for g := range int64(n) {
			if _, err := r.ReadGroup(g, buf); errors.Is(err, ErrCorrupt) != (lo <= g && g < hi) {
				t.Fatalf("group %d with parent %d damaged: %v", g, node, err)
			}
		}
		o.outboard[node*ParentSize+3] ^= 4
		for g := range int64(n) {
			if _, err := r.ReadGroup(g, buf); err != nil {
				t.Fatalf("group %d after parent %d was repaired: %v", g, node, err)
			}
		}
	}
}

// TestParentCacheConcurrent: readers of one object fill and read its parent cache together.
func TestParentCacheConcurrent(t *testing.T) {
	const n, readers = 300, 4
	var real []int64
	for g := int64(0); g < n; g += 7 {
		real = append(real, g)
	}
	o := newSparseObject(n, real)
	src := o.source(n)
	r := NewReader(o.root, n*GroupSize, src)
	r.countTopParents(cacheSlots(n))
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(5, uint64(i)))
			buf := make([]byte, GroupSize)
			for range 4 {
				for _, j := range rnd.Perm(len(real)) {
					if p, err := r.ReadGroup(real[j], buf); err != nil || !bytes.Equal(p, o.group) {
						t.Error(real[j], err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	before := src.parents.Load()
	for _, g := range real {
		if _, err := r.ReadGroup(g, make([]byte, GroupSize)); err != nil {
			t.Fatal(err)
		}
	}
	if got := src.parents.Load() - before; got != 0 {
		t.Errorf("%d parents were read again", got)
	}
}
