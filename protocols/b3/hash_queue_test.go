package b3

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"allium/internal/cores"
)

// TestHashQueue: groups are hashed by as many at a time as there are places, in a
// crowd by one fewer, and all of them in the end.
func TestHashQueue(t *testing.T) {
	t.Parallel()
	p := make([]byte, GroupSize)
	want := groupCV(p, 3, false)
	for name, c := range map[string]struct {
		wait  time.Duration
		cores int
		held  int // places that are taken when the groups come
	}{
		"all cores":        {0, 3, 3},
		"a core kept free": {time.Hour, 3, 2},
		"a single core":    {time.Hour, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := NewHashQueue(c.cores)
			queue.meanWait.Store(int64(c.wait))
			take, leave := func() { queue.pool.Enter(cores.Foreground) }, func() { queue.pool.Leave(cores.Foreground) }
			if c.wait > crowded && c.cores > 1 {
				take, leave = func() { queue.allButOne <- struct{}{} }, func() { <-queue.allButOne }
			}
			for range c.held {
				take()
			}
			const readers = 20
			done := make(chan [Size]byte, readers) // bound: readers
			started := make(chan struct{})
			for range readers {
				go func() {
					started <- struct{}{}
					done <- queue.groupCV(p, 3, false)
				}()
				<-started
			}
			for range 1000 {
				runtime.Gosched()
			}
			if n := len(done); n > 0 {
				t.Errorf("%d groups were hashed out of turn", n)
			}
			for range c.held {
				leave()
			}
			for range readers {
				if cv := <-done; cv != want {
					t.Errorf("%x, want %x", cv, want)
				}
			}
			if queue.pool.InUse()+len(queue.allButOne) != 0 {
				t.Error("a place is taken for ever")
			}
		})
	}
}

// TestCrowded: long waits keep a core free soon, a single one does not, and
// short ones give it back.
func TestCrowded(t *testing.T) {
	t.Parallel()
	queue := NewHashQueue(2)
	queue.recordWait(100 * time.Millisecond)
	if queue.Wait() > crowded {
		t.Error("one wait was enough")
	}
	for _, c := range []struct {
		wait    time.Duration
		crowded bool
	}{{3 * crowded, true}, {crowded / 2, false}, {0, false}} {
		n := 0
		for ; queue.Wait() > crowded != c.crowded && n < 1000; n++ {
			queue.recordWait(c.wait)
		}
		for range 1000 {
			queue.recordWait(c.wait)
		}
		if now := queue.Wait(); now > crowded != c.crowded || n > 2*waitWeight {
			t.Errorf("waits of %s: %s after %d", c.wait, now, n)
		}
	}
}

// TestBackground: groups of the background are hashed as others are, and small groups do not wait.
func TestBackground(t *testing.T) {
	t.Parallel()
	queue := NewHashQueue(1)
	p := make([]byte, GroupSize)
	queue.pool.Enter(cores.Foreground)
	if cv := queue.groupCV(p[:smallGroup], 0, true); cv != groupCV(p[:smallGroup], 0, true) {
		t.Errorf("a small group: %x", cv)
	}
	var wg sync.WaitGroup
	for _, q := range []*HashQueue{queue.Background(), queue} {
		wg.Go(func() {
			if cv := q.groupCV(p, 3, false); cv != groupCV(p, 3, false) {
				t.Errorf("%x", cv)
			}
		})
	}
	queue.pool.Leave(cores.Foreground)
	wg.Wait()
	if none := (*HashQueue)(nil); none.Background() != nil || queue.Background().Background() != queue.Background() {
		t.Error("the background of the background, or of none, is another")
	}
}

// BenchmarkQueue hashes 1 MiB in groups, and 4 KiB, through a queue.
func BenchmarkQueue(b *testing.B) {
	queue := NewHashQueue(runtime.GOMAXPROCS(0))
	for name, size := range map[string]int{"1MiB": 1 << 20, "4KiB": 4 << 10} {
		p := make([]byte, size)
		hash := func() {
			for i := 0; i < size; i += GroupSize {
				queue.groupCV(p[i:min(size, i+GroupSize)], int64(i/GroupSize), false)
			}
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				hash()
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					hash()
				}
			})
		})
	}
}
