package simnet

import (
	"runtime"
	"sync"
	"testing"
)

// processors counts the networks that need one processor.
var processors struct {
	mu    sync.Mutex // lock: leaf
	users int
	was   int // GOMAXPROCS before the first of them
}

// useOneProcessor keeps the process on one processor until t ends, if it runs under the race detector.
// All timers of a bubble share one state in the detector, and goroutines that look at expired timers on
// two processors at once corrupt it: the process ends with SIGSEGV (golang/go issue 78156). Networks
// have enough timers for that. On one processor the detector still finds races: it compares what is
// ordered, and not what happens at the same moment.
func useOneProcessor(t testing.TB) {
	if !raceDetector {
		return
	}
	p := &processors
	p.mu.Lock()
	if p.users++; p.users == 1 {
		p.was = runtime.GOMAXPROCS(1)
	}
	p.mu.Unlock()
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users--; p.users == 0 {
			runtime.GOMAXPROCS(p.was)
		}
	})
}
