package tables

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/meta"
)

func rootOf(n uint64) b3.Root { return b3.Sum(binary.LittleEndian.AppendUint64(nil, n)) }

// filled returns an index with n objects, the even ones of which are large.
func filled(t testing.TB, n int) *Index {
	t.Helper()
	x, err := Open(Options{
		FS: vfs.NewMem(), Dir: "index", Cache: 8 << 20, Files: 64, Fresh: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	for i := 0; i < n; {
		b := x.NewBatch()
		for ; i < n && b.Size() < 64<<10; i++ {
			if err := b.SetEntry(entryOf(uint64(i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Apply(false); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func entryOf(i uint64) meta.Entry {
	e := meta.Entry{Root: rootOf(i), Size: int64(i + 1), Seg: 7, Added: 1000}
	if i%2 == 0 {
		e.Size += b3.GroupSize
	} else {
		e.Off = int64(i)
	}
	return e
}

// TestGetAll: a look-up of many says of each what a look-up of it alone does, from
// the database and from a batch that sees its own changes.
func TestGetAll(t *testing.T) {
	t.Parallel()
	const n = 60_000 // more than a write buffer has room for
	x := filled(t, n)
	b := x.NewReadingBatch()
	defer b.Close()
	if err := b.DropEntry(rootOf(3)); err != nil {
		t.Fatal(err)
	}
	if err := b.SetEntry(entryOf(n + 1)); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	roots := []b3.Root{rootOf(3), rootOf(n + 1), {}, rootOf(3)}
	for range 2000 {
		roots = append(roots, rootOf(rng.Uint64N(2*n)))
	}
	for name, from := range map[string]interface {
		Get(b3.Root) (meta.Entry, bool, error)
		GetAll([]b3.Root) ([]meta.Entry, error)
	}{"index": x, "batch": b} {
		es, err := from.GetAll(roots)
		if err != nil || len(es) != len(roots) {
			t.Fatalf("%s: %d entries, %v", name, len(es), err)
		}
		for i, root := range roots {
			want, _, err := from.Get(root)
			if err != nil || es[i] != want {
				t.Fatalf("%s: %s is %+v, want %+v, %v", name, root, es[i], want, err)
			}
		}
	}
	if es, err := x.GetAll(nil); err != nil || len(es) != 0 {
		t.Error(es, err)
	}
}

// TestTouchAge: a use is written when the one that is known is old enough.
func TestTouchAge(t *testing.T) {
	t.Parallel()
	x := filled(t, 10)
	touch := func(at, age meta.Second) {
		t.Helper()
		b := x.NewBatch()
		if err := b.Touch([]b3.Root{rootOf(1), rootOf(99)}, []meta.Second{at, at}, age); err != nil {
			t.Fatal(err)
		}
		if err := b.Apply(false); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ at, age, want meta.Second }{
		{1500, 600, 1000}, {1600, 600, 1600}, {2100, 600, 1600}, {2200, 600, 2200}, {2100, 1, 2200},
	} {
		touch(step.at, step.age)
		if used, err := x.LastUse(entryOf(1)); err != nil || used != step.want {
			t.Errorf("after a use at %d the last is %d, want %d: %v", step.at, used, step.want, err)
		}
	}
	if ok, err := (Cell{x.database, rootKey(keyUse, rootOf(99))}).Has(); ok || err != nil {
		t.Errorf("a use of no object was written: %v", err)
	}
}

// BenchmarkGetAll compares one look-up of many objects with one for each.
func BenchmarkGetAll(b *testing.B) {
	const n, many = 200_000, 1024
	x := filled(b, n)
	for _, share := range []uint64{1, 1000} { // all there, or nearly none
		rng := rand.New(rand.NewPCG(1, 2))
		roots := make([]b3.Root, many)
		for i := range roots {
			roots[i] = rootOf(rng.Uint64N(n * share))
		}
		b.Run(fmt.Sprintf("batch/1in%d", share), func(b *testing.B) {
			for b.Loop() {
				if _, err := x.GetAll(roots); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/object")
		})
		b.Run(fmt.Sprintf("single/1in%d", share), func(b *testing.B) {
			for b.Loop() {
				for _, root := range roots {
					if _, _, err := x.Get(root); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/object")
		})
	}
}
