package memory

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/ram/arena"
)

func openMemory(t testing.TB, limit int64) *Backend {
	t.Helper()
	m := New(limit, meta.NewClock(time.Now))
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// ramObject is n bytes that depend on seed.
func ramObject(seed uint64, n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(p)
	return p
}

// store puts p; a large one has bytes of the same length for an outboard.
func (m *Backend) store(p []byte) error {
	root := b3.Sum(p)
	if meta.Small(int64(len(p))) {
		_, err := m.Put(context.Background(), root, p, false, func() {})
		return err
	}
	st, err := m.Stage(root)
	if err != nil {
		return err
	}
	defer st.Close()
	for _, f := range []meta.File{st.Data, st.Outboard} {
		if _, err := f.WriteAt(p, 0); err != nil {
			return err
		}
	}
	_, err = m.Publish(context.Background(), root, int64(len(p)), st, false, func() {})
	return err
}

// TestMemoryReadersAndRemovals reads objects while others remove and put them:
// a reader that was let in reads the object's bytes to the end, and when all
// are gone the cap is whole again.
func TestMemoryReadersAndRemovals(t *testing.T) {
	t.Parallel()
	m := openMemory(t, 16<<20)
	objects := make([][]byte, 8)
	for i := range objects {
		objects[i] = ramObject(uint64(i), []int{100, 4 << 10, b3.GroupSize, 3*b3.GroupSize + 17}[i%4])
	}
	read := func(p []byte) {
		root := b3.Sum(p)
		e, ok, _ := m.Get(root)
		if !ok {
			return
		}
		if meta.Small(e.Size) {
			if got, err := m.Read(e); err == nil && !bytes.Equal(got, p) {
				t.Errorf("%s has other bytes", root)
			}
			return
		}
		f, err := m.OpenPair(e)
		if err != nil {
			return
		}
		defer f.Close()
		got := make([]byte, len(p))
		for range 3 {
			for _, half := range []meta.File{f.Data, f.Outboard} {
				if _, err := half.ReadAt(got, 0); err != nil || !bytes.Equal(got, p) {
					t.Errorf("%s has other bytes, %v", root, err)
				}
			}
			runtime.Gosched()
		}
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 400 {
				read(objects[(i+w)%len(objects)])
			}
		})
	}
	for w := range 2 {
		all.Go(func() {
			for i := range 400 {
				p := objects[(i*2+w)%len(objects)] // one writer for each object
				if err := m.store(p); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					if err := m.Mark(meta.Entry{Root: b3.Sum(p)}, true); err != nil { // the next put replaces it
						t.Error(err)
					}
					continue
				}
				if e, ok, _ := m.Get(b3.Sum(p)); ok {
					if err := m.RemoveAll(context.Background(), []meta.Entry{e}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for _, p := range objects {
		if e, ok, _ := m.Get(b3.Sum(p)); ok {
			if err := m.RemoveAll(context.Background(), []meta.Entry{e}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st := m.arena.Stats(); st.Used != 0 {
		t.Errorf("everything is removed: %+v", st)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestMemoryReadAfterClose reads an object whose store is closed, as an
// abandoned request may.
func TestMemoryReadAfterClose(t *testing.T) {
	t.Parallel()
	m := openMemory(t, 1<<20)
	p := ramObject(1, 2*b3.GroupSize)
	if err := m.store(p); err != nil {
		t.Fatal(err)
	}
	e, _, _ := m.Get(b3.Sum(p))
	f, err := m.OpenPair(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(p))
	if _, err := f.Data.ReadAt(got, 0); err != nil || !bytes.Equal(got, p) {
		t.Errorf("it has other bytes, %v", err)
	}
	f.Close()
}

// TestMemoryCap fills the backend to the last block, in both kinds of object.
func TestMemoryCap(t *testing.T) {
	t.Parallel()
	const limit = 10 * b3.GroupSize
	m := openMemory(t, limit)
	for i := range limit/b3.GroupSize - 1 {
		if err := m.store(ramObject(uint64(i), b3.GroupSize)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.store(ramObject(100, 2*b3.GroupSize)); status.Of(err) != status.NoSpace {
		t.Errorf("a large object that does not fit: %v", err)
	}
	if left := m.arena.Available(); left != b3.GroupSize {
		t.Errorf("%d bytes are left, want one group: a refused object keeps some", left)
	}
	for i := range b3.GroupSize / arena.Block {
		if err := m.store([]byte{1, byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.store([]byte{2}); status.Of(err) != status.NoSpace {
		t.Errorf("one byte more: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkMemoryObjects fills the backend with objects of 4 KiB and reports
// what each costs above its bytes, and how long a garbage collection takes with
// all of them there.
func BenchmarkMemoryObjects(b *testing.B) {
	const n, size = 200_000, 4 << 10
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := openMemory(b, n*size)
		p := make([]byte, size)
		for i := range n {
			p[0], p[1], p[2] = byte(i), byte(i>>8), byte(i>>16)
			if _, err := m.Put(context.Background(), b3.Sum(p), p, false, func() {}); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		begun := time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(begun).Microseconds()), "GC-µs")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-B/object")
		st := m.arena.Stats()
		b.ReportMetric(100*float64(st.Touched+int64(after.HeapAlloc-before.HeapAlloc)-n*size)/(n*size), "overhead-%")
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMemoryEntries lists more objects than pages hold, from every place.
func TestMemoryEntries(t *testing.T) {
	t.Parallel()
	m := openMemory(t, 8<<20)
	var all []b3.Root
	for i := range 3000 {
		p := []byte{byte(i), byte(i >> 8)}
		root := b3.Sum(p)
		root[0] &= 1 // two full parts
		if _, err := m.Put(context.Background(), root, p, false, func() {}); err != nil {
			t.Fatal(err)
		}
		all = append(all, root)
	}
	slices.SortFunc(all, meta.CompareRoots)
	for _, size := range []int{1, 7, 256, 1000, 3000, 4000} {
		for _, from := range []int{0, 1, 1499, 1500, 2990, 2999} {
			page, err := m.Entries(all[from], make([]meta.Entry, 0, size))
			want := all[from:min(len(all), from+size)]
			if err != nil || len(page) != len(want) {
				t.Fatalf("a page of %d from %d has %d entries, %v", size, from, len(page), err)
			}
			for i, e := range page {
				if e.Root != want[i] {
					t.Fatalf("a page of %d from %d has another order at %d", size, from, i)
				}
			}
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
