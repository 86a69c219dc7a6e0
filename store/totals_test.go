package store

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
	var before, after []entry
	for i := range 64 {
		e := entry{root: b3.Root{byte(i)}, size: int64(i) * 2000, seg: 1}
		before = append(before, e)
		e.seg = 2
		after = append(after, e)
	}
	var count totals
	count.replace(nil, before)
	objects, bytes := count.objects.Load(), count.bytes.Load()
	if objects != 64 || bytes != 63*64/2*2000 {
		t.Fatalf("%d objects of %d bytes", objects, bytes)
	}
	var moved atomic.Bool
	var mover sync.WaitGroup
	mover.Go(func() {
		defer moved.Store(true)
		for range 5_000 {
			count.replace(before, after)
		}
	})
	for !moved.Load() && !t.Failed() {
		if n, size := count.objects.Load(), count.bytes.Load(); n != objects || size != bytes {
			t.Errorf("%d objects of %d bytes are counted during a move, there are %d of %d", n, size, objects, bytes)
		}
		runtime.Gosched()
	}
	mover.Wait()
	marked := after[60]
	marked.corrupt = true
	count.replace(after[60:61], []entry{marked})
	if count.objects.Load() != objects || count.corrupt.Load() != 1 {
		t.Errorf("after a mark %d objects, %d damaged", count.objects.Load(), count.corrupt.Load())
	}
	count.sub(marked)
	count.replace(after[:60], nil)
	count.replace(after[61:], nil)
	for i, c := range count.counters() {
		if c.Load() != 0 {
			t.Errorf("counter %d is %d when everything is gone", i, c.Load())
		}
	}
}
