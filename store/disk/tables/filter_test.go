package tables

import (
	"math/rand/v2"
	"sync"
	"testing"

	"allium/protocols/b3"
)

// reopened gives x the filter of an index that was just opened.
func reopened(x *Index) *Index {
	x.filter = newRootFilter(x.database, nil)
	return x
}

// TestFilterAgainstModel looks up, enters and deletes at random in an index with older entries: each answer is
// that of a map, before, while and after the filter has read the older ones.
func TestFilterAgainstModel(t *testing.T) {
	t.Parallel()
	const n = 5000
	x := reopened(filled(t, n))
	has := map[uint64]bool{}
	for i := range uint64(n) {
		has[i] = true
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for step := range 20_000 {
		i := rng.Uint64N(3 * n)
		if rng.IntN(4) == 0 {
			b := x.NewBatch()
			var err error
			if has[i] {
				err = b.DropEntry(rootOf(i))
			} else {
				err = b.SetEntry(entryOf(i))
			}
			if err == nil {
				err = b.Apply(false)
			}
			if err != nil {
				t.Fatal(err)
			}
			has[i] = !has[i]
		}
		e, ok, err := x.Get(rootOf(i))
		if err != nil || ok != has[i] || ok && e.Root != rootOf(i) {
			t.Fatalf("step %d: entry %d is %v %t, %v, want %t", step, i, e.Root, ok, err, has[i])
		}
	}
	if !x.filter.allRead.Load() {
		t.Fatal("the filter has not read the older entries")
	}
	told := 0
	for i := range uint64(10_000) {
		if x.filter.absent(rootOf(3*n + i)) {
			told++
		}
	}
	if told < 9500 {
		t.Errorf("of 10,000 roots that were never entered the filter knows %d", told)
	}
}

// TestFilterAtOnce enters entries while others look up absent roots. The goroutine that entered one finds it.
func TestFilterAtOnce(t *testing.T) {
	t.Parallel()
	const n, writers, each = 3000, 4, 500
	x := reopened(filled(t, n))
	var all sync.WaitGroup
	for w := range uint64(writers) {
		all.Go(func() {
			for i := n + w*each; i < n+(w+1)*each; i++ {
				b := x.NewBatch()
				if err := b.SetEntry(entryOf(i)); err != nil {
					t.Error(err)
				}
				if err := b.Apply(false); err != nil {
					t.Error(err)
				}
				if _, ok, err := x.Get(rootOf(i)); !ok || err != nil {
					t.Errorf("entry %d is not found after it was entered: %v", i, err)
				}
				if _, ok, err := x.Get(rootOf(i + 1<<40)); ok || err != nil {
					t.Errorf("an entry that nobody entered: %v", err)
				}
			}
		})
	}
	all.Wait()
	for i := range uint64(n + writers*each) {
		if _, ok, err := x.Get(rootOf(i)); !ok || err != nil {
			t.Fatalf("entry %d is not found: %v", i, err)
		}
	}
}

// TestFilterGrows adds more roots than the first layer takes, and fills the last layer.
func TestFilterGrows(t *testing.T) {
	t.Parallel()
	x := filled(t, 0)
	f := x.filter
	f.readPage()
	last := uint64(2*firstLayer + 10)
	for i := range last {
		f.add(rootOf(i))
	}
	if n := len(*f.layers.Load()); n != 2 {
		t.Errorf("%d layers, want 2", n)
	}
	if got, want := f.bytes.Load(), int64(5*firstLayer*10/8); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	for i := range last {
		if f.absent(rootOf(i)) {
			t.Fatalf("root %d is lost", i)
		}
	}
	if !f.absent(b3.Root{1}) {
		t.Error("a root that was not added may be there")
	}
	f.layers.Store(&[]*filterLayer{{Filter: (*f.layers.Load())[0].Filter, most: lastLayer}})
	(*f.layers.Load())[0].added.Store(lastLayer - 1)
	f.add(rootOf(last))
	f.add(rootOf(last + 1)) // is not added any more
	if f.absent(rootOf(last+1)) || f.absent(b3.Root{1}) {
		t.Error("a full filter still tells that roots are absent")
	}
}

// BenchmarkGetAbsent looks up roots without an entry, in an index of 100,000.
func BenchmarkGetAbsent(b *testing.B) {
	x := filled(b, 100_000)
	for i := range uint64(1000) {
		if _, _, err := x.Get(rootOf(1<<40 + i)); err != nil { // the filter reads the entries
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		if _, ok, err := x.Get(rootOf(1<<32 + i%4096)); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
