package b3

import (
	"runtime"
	"sync/atomic"
	"time"
)

// turns says who hashes a group next. Readers that could all run at once would
// each keep a core for a time slice of the scheduler, some 10 ms, and a small
// request behind them would wait for all. So whoever hashes lets the others go
// first, before every group; a group takes some 20 µs and waits for nothing.
//
// While there is always somebody who can run, the runtime looks at the network
// only every 10 ms. Where groups wait for longer than crowded, one core is kept
// from hashing: the others queue where the scheduler does not see them, and that
// core comes to look at the network all the time (SPEC §2). Beside hundreds of
// downloads this costs a fifth of the bytes per second on two cores, and less on
// more. A single core is never kept from hashing: readers that hand each other
// the turn would then keep it from everyone else, for seconds.
type turns struct {
	all  chan struct{} // a place for each core
	few  chan struct{} // the same but for one; nil on a single core
	wait atomic.Int64  // of a group, a moving mean in nanoseconds
}

// crowded is from which mean wait on a core is kept free.
const crowded = 6 * time.Millisecond

// waitWeight is how many waits the mean looks back on, about.
const waitWeight = 32

func newTurns(cores int) *turns {
	t := &turns{all: make(chan struct{}, cores)} // bound: the cores
	if cores > 1 {
		t.few = make(chan struct{}, cores-1) // bound: the cores but one
	}
	return t
}

// hashing has the turns of the process.
var hashing = newTurns(runtime.GOMAXPROCS(0))

// HashWait is how long groups have lately waited to be hashed, a moving mean.
func HashWait() time.Duration { return hashing.mean() }

func (t *turns) mean() time.Duration { return time.Duration(t.wait.Load()) }

// groupCV is the function groupCV when it is this group's turn.
func (t *turns) groupCV(p []byte, index int64, root bool) [Size]byte {
	begun := time.Now()
	if t.few != nil && t.mean() > crowded {
		t.few <- struct{}{}
		defer func() { <-t.few }()
	} else {
		runtime.Gosched()
	}
	t.all <- struct{}{}
	defer func() { <-t.all }()
	t.waited(time.Since(begun))
	return groupCV(p, index, root)
}

// waited counts a wait; of two at the same time one may be lost.
func (t *turns) waited(d time.Duration) {
	mean := t.wait.Load()
	t.wait.Store(mean + (int64(d)-mean)/waitWeight)
}
