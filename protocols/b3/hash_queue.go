package b3

import (
	"runtime"
	"sync/atomic"
	"time"
)

// HashQueue admits the hashing of groups: one group per core at a time. A process
// has one, which its owner hands to whatever proves groups. Its methods are safe
// for concurrent use; a nil *HashQueue admits every group at once and never reads
// ahead.
//
// Readers that could all run at once would each keep a core for a time slice of
// the scheduler, some 10 ms, and a small request behind them would wait for all.
// So a reader lets the others go first before every group; hashing a group takes
// some 20 µs and waits for nothing.
//
// While some goroutine can always run, the runtime looks at the network only every
// 10 ms. When groups wait longer than crowded, the queue keeps one core from
// hashing: readers then queue where the scheduler does not see them, and that core
// polls the network all the time (SPEC §2). Beside hundreds of downloads this
// costs a fifth of the bytes per second on two cores, and less on more. A single
// core is never kept from hashing: readers that hand each other the place would
// then keep it from everyone else, for seconds.
type HashQueue struct {
	all chan struct{} // a place for each core
	few chan struct{} // the same but for one; nil on a single core

	wait  atomic.Int64 // of a group, a moving mean in nanoseconds
	ahead atomic.Int64 // goroutines that read ahead, at most one for each core
}

// crowded is the mean wait above which a core is kept free.
const crowded = 6 * time.Millisecond

// waitWeight is about how many waits the mean looks back on.
const waitWeight = 32

// NewHashQueue returns a queue for that many cores, 1 at least.
func NewHashQueue(cores int) *HashQueue {
	cores = max(cores, 1)
	q := &HashQueue{all: make(chan struct{}, cores)} // bound: the cores
	if cores > 1 {
		q.few = make(chan struct{}, cores-1) // bound: the cores but one
	}
	return q
}

// Cores is how many groups are hashed at the same time, at most.
func (q *HashQueue) Cores() int { return cap(q.all) }

// InUse is how many groups are being hashed.
func (q *HashQueue) InUse() int { return len(q.all) }

// Wait is how long groups have lately waited to be hashed, a moving mean; of a nil
// queue 0.
func (q *HashQueue) Wait() time.Duration {
	if q == nil {
		return 0
	}
	return time.Duration(q.wait.Load())
}

// Reader is [NewReader] whose groups pass the queue.
func (q *HashQueue) Reader(root Root, size int64, src Source) *Reader {
	return &Reader{root: root, size: size, src: src, queue: q}
}

// Walk is [NewWalk] whose groups pass the queue.
func (q *HashQueue) Walk(root Root, size int64, ranges []Range) (*Walk, error) {
	w, err := NewWalk(root, size, ranges)
	if err != nil {
		return nil, err
	}
	w.queue = q
	return w, nil
}

// SizeProof is [NewSizeProof] whose group passes the queue.
func (q *HashQueue) SizeProof(root Root, size int64) (*Walk, error) {
	if size == 0 {
		return q.Walk(root, size, nil)
	}
	return q.Walk(root, size, []Range{{size - 1, size}})
}

// groupCV is the function groupCV, called when the queue admits the group.
func (q *HashQueue) groupCV(p []byte, index int64, root bool) [Size]byte {
	if q == nil {
		return groupCV(p, index, root)
	}
	begun := time.Now()
	if q.few != nil && q.Wait() > crowded {
		q.few <- struct{}{}
		defer func() { <-q.few }()
	} else {
		runtime.Gosched()
	}
	q.all <- struct{}{}
	defer func() { <-q.all }()
	q.waited(time.Since(begun))
	return groupCV(p, index, root)
}

// waited counts a wait; of two at the same time one may be lost.
func (q *HashQueue) waited(d time.Duration) {
	mean := q.wait.Load()
	q.wait.Store(mean + (int64(d)-mean)/waitWeight)
}

// beginAhead reports whether one goroutine more may read ahead. endAhead ends it.
func (q *HashQueue) beginAhead() bool {
	if q == nil {
		return false
	}
	if q.ahead.Add(1) > int64(cap(q.all)) {
		q.ahead.Add(-1)
		return false
	}
	return true
}

func (q *HashQueue) endAhead() { q.ahead.Add(-1) }
