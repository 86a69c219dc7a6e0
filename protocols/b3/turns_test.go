package b3

import (
	"runtime"
	"testing"
	"time"
)

// TestTurns: groups are hashed by as many at a time as there are places, in a
// crowd by one fewer, and all of them in the end.
func TestTurns(t *testing.T) {
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
			turns := newTurns(c.cores)
			turns.wait.Store(int64(c.wait))
			places := turns.all
			if c.wait > crowded && c.cores > 1 {
				places = turns.few
			}
			for range c.held {
				places <- struct{}{}
			}
			const readers = 20
			done := make(chan [Size]byte, readers) // bound: readers
			started := make(chan struct{})
			for range readers {
				go func() {
					started <- struct{}{}
					done <- turns.groupCV(p, 3, false)
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
				<-places
			}
			for range readers {
				if cv := <-done; cv != want {
					t.Errorf("%x, want %x", cv, want)
				}
			}
			if len(turns.all)+len(turns.few) != 0 {
				t.Error("a place is taken for ever")
			}
		})
	}
}

// TestCrowded: long waits keep a core free soon, a single one does not, and
// short ones give it back.
func TestCrowded(t *testing.T) {
	t.Parallel()
	turns := newTurns(2)
	turns.waited(100 * time.Millisecond)
	if turns.mean() > crowded {
		t.Error("one wait was enough")
	}
	for _, c := range []struct {
		wait    time.Duration
		crowded bool
	}{{3 * crowded, true}, {crowded / 2, false}, {0, false}} {
		n := 0
		for ; turns.mean() > crowded != c.crowded && n < 1000; n++ {
			turns.waited(c.wait)
		}
		for range 1000 {
			turns.waited(c.wait)
		}
		if now := turns.mean(); now > crowded != c.crowded || n > 2*waitWeight {
			t.Errorf("waits of %s: %s after %d", c.wait, now, n)
		}
	}
}
