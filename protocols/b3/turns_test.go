package b3

import (
	"runtime"
	"testing"
)

// TestTurns: groups are hashed by as many at a time as there are places, and all
// of them in the end. It holds every place, so it runs beside no other test.
func TestTurns(t *testing.T) {
	p := make([]byte, GroupSize)
	want := groupCV(p, 3, false)
	for range cap(turns) {
		turns <- struct{}{}
	}
	const readers = 20
	done := make(chan [Size]byte, readers) // bound: readers
	started := make(chan struct{})
	for range readers {
		go func() {
			started <- struct{}{}
			done <- groupCVInTurn(p, 3, false)
		}()
		<-started
	}
	for range 1000 {
		runtime.Gosched()
	}
	if n := len(done); n > 0 {
		t.Errorf("%d groups were hashed out of turn", n)
	}
	for range cap(turns) {
		<-turns
	}
	for range readers {
		if cv := <-done; cv != want {
			t.Errorf("%x, want %x", cv, want)
		}
	}
}
