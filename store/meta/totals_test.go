package meta

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"allium/protocols/b3"
)

// TestMovedIsCounted: objects that a compaction moves are in the counters at any
// time, and what is put, marked and removed is counted once.
func TestMovedIsCounted(t *testing.T) {
	t.Parallel()
	var before, after []Entry
	for i := range 64 {
		e := Entry{Root: b3.Root{byte(i)}, Size: int64(i) * 2000, Seg: 1}
		before = append(before, e)
		e.Seg = 2
		after = append(after, e)
	}
	var count Totals
	count.Replace(nil, before)
	objects, bytes := count.Objects.Load(), count.Bytes.Load()
	if objects != 64 || bytes != 63*64/2*2000 {
		t.Fatalf("%d objects of %d bytes", objects, bytes)
	}
	var moved atomic.Bool
	var mover sync.WaitGroup
	mover.Go(func() {
		defer moved.Store(true)
		for range 5_000 {
			count.Replace(before, after)
		}
	})
	for !moved.Load() && !t.Failed() {
		if n, size := count.Objects.Load(), count.Bytes.Load(); n != objects || size != bytes {
			t.Errorf("%d objects of %d bytes are counted during a move, there are %d of %d", n, size, objects, bytes)
		}
		runtime.Gosched()
	}
	mover.Wait()
	marked := after[60]
	marked.Corrupt = true
	count.Replace(after[60:61], []Entry{marked})
	if count.Objects.Load() != objects || count.Corrupt.Load() != 1 {
		t.Errorf("after a mark %d objects, %d damaged", count.Objects.Load(), count.Corrupt.Load())
	}
	count.Sub(marked)
	count.Replace(after[:60], nil)
	count.Replace(after[61:], nil)
	for i, c := range count.Counters() {
		if c.Load() != 0 {
			t.Errorf("counter %d is %d when everything is gone", i, c.Load())
		}
	}
}
