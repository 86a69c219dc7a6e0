package b3

import (
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"allium/internal/cores"
)

// HashQueue limits the hashing of groups to one group per core at a time. A
// process has one HashQueue and passes it to everything that verifies groups. It takes
// the cores from a [cores.Pool], which other work shares. Its methods are safe for
// concurrent use. A nil *HashQueue admits every group at once and never reads ahead.
//
// Groups that somebody waits for go before those of [HashQueue.Background]. A group of
// at most smallGroup bytes does not wait at all.
//
// Without the queue, each reader would keep a core for a time slice of the
// scheduler, about 10 ms, and a small request would wait for all of them. So a
// reader yields before every group. Hashing one group takes about 20 µs and never
// blocks.
//
// While some goroutine is always runnable, the Go runtime polls the network only
// every 10 ms. When groups wait longer than crowded on average, the queue leaves
// one core free of hashing. Readers then wait on a channel instead of the run
// queue, and the free core polls the network all the time (SPEC §2). With
// hundreds of downloads this costs a fifth of the throughput on two cores, and
// less on more cores.
//
// A single core is never left free: readers that pass the only slot to each other
// would then keep everything else from running, for seconds.
type HashQueue struct {
	pool      *cores.Pool
	class     cores.Class
	allButOne chan struct{} // one slot fewer than cores; nil on a single core, and of Background
	behind    *HashQueue    // what Background returns

	meanWait atomic.Int64 // moving mean of the wait of a group, in nanoseconds
	readers  atomic.Int64 // goroutines that read ahead, at most one per core
}

// crowded is the mean wait above which the queue leaves one core free.
const crowded = 6 * time.Millisecond

// waitWeight is roughly how many recent waits the moving mean covers.
const waitWeight = 32

// NewHashQueue returns a queue that has so many cores, at least 1, for itself.
func NewHashQueue(n int) *HashQueue { return NewHashQueueOn(cores.New(n)) }

// NewHashQueueOn returns a queue that takes its cores from a pool.
func NewHashQueueOn(pool *cores.Pool) *HashQueue {
	q := &HashQueue{
		pool: pool, class: cores.Foreground, behind: &HashQueue{pool: pool, class: cores.Background},
	}
	if n := pool.Cores(); n > 1 {
		q.allButOne = make(chan struct{}, n-1) // bound: the number of cores, less one
	}
	return q
}

// Cores returns the most groups that are hashed at the same time.
func (q *HashQueue) Cores() int { return q.pool.Cores() }

// Background returns the queue of groups that nobody waits for, such as those of a scrub. Of nil it is nil.
func (q *HashQueue) Background() *HashQueue {
	if q == nil || q.behind == nil {
		return q
	}
	return q.behind
}

// Hasher is like [NewHasher]; the queue limits its hashing.
func (q *HashQueue) Hasher(out io.Writer, workers int) *Hasher {
	h := NewHasher(out, workers)
	h.cores = q
	return h
}

// smallGroup is the length of a group that is hashed without a slot: in 2 µs.
const smallGroup = 4 << 10

// Wait returns how long recent groups waited to be hashed, as a moving mean. For a
// nil queue it is 0.
func (q *HashQueue) Wait() time.Duration {
	if q == nil {
		return 0
	}
	return time.Duration(q.meanWait.Load())
}

// Reader is like [NewReader]; the queue limits its hashing.
func (q *HashQueue) Reader(root Root, size int64, src Source) *Reader {
	return &Reader{root: root, size: size, src: src, queue: q}
}

// Walk is like [NewWalk]; the queue limits its hashing.
func (q *HashQueue) Walk(root Root, size int64, ranges []Range) (*Walk, error) {
	w, err := NewWalk(root, size, ranges)
	if err != nil {
		return nil, err
	}
	w.queue = q
	return w, nil
}

// SizeProof returns the walk that proves only a claimed size. Its items are the parents of the
// right spine and the last group (OAP1 §9). The queue, unless it is nil, limits its hashing.
func (q *HashQueue) SizeProof(root Root, size int64) (*Walk, error) {
	if size == 0 {
		return q.Walk(root, size, nil)
	}
	return q.Walk(root, size, []Range{{size - 1, size}})
}

// groupCV waits until the queue admits the group and calls the function groupCV.
func (q *HashQueue) groupCV(p []byte, index int64, root bool) [Size]byte {
	if q == nil || len(p) <= smallGroup {
		return groupCV(p, index, root)
	}
	start := time.Now()
	if q.allButOne != nil && q.Wait() > crowded {
		q.allButOne <- struct{}{}
		defer func() { <-q.allButOne }()
	} else {
		runtime.Gosched()
	}
	q.pool.Enter(q.class)
	defer q.pool.Leave(q.class)
	q.recordWait(time.Since(start))
	return groupCV(p, index, root)
}

// recordWait adds d to the moving mean. It may lose one of two concurrent calls.
func (q *HashQueue) recordWait(d time.Duration) {
	mean := q.meanWait.Load()
	q.meanWait.Store(mean + (int64(d)-mean)/waitWeight)
}

// beginReadAhead reports whether one more goroutine may read ahead. After true the
// caller must call endReadAhead.
func (q *HashQueue) beginReadAhead() bool {
	if q == nil {
		return false
	}
	if q.readers.Add(1) > int64(q.pool.Cores()) {
		q.readers.Add(-1)
		return false
	}
	return true
}

func (q *HashQueue) endReadAhead() { q.readers.Add(-1) }
