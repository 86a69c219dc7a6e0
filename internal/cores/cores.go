// Package cores shares the processor's cores between work that needs a core for a while: hashing,
// compression, erasure codes and signatures of records (SPEC §2).
//
// A [Pool] has a slot for each core. Work takes a slot for a short piece, such as the hashing of 64 KiB (20 µs) or the
// coding of 1 MiB (1 ms), and gives it back. Work that somebody waits for, such as a download, is [Foreground] and goes
// first; a scrub is [Background]. Work of a few microseconds, such as the hash of 4 KiB, takes no slot. Nor does the
// one signature (26 µs to make, 60 µs to check) of a token, a name or an announcement: it comes once with a request or
// a lookup, which takes longer and passes its own gate, and some are made under a lock, where nothing may wait. Records
// take a slot, because peers send them in bulk.
//
// Invariants: at most as many pieces run as there are cores. No foreground work waits behind background
// work, but for one piece in backgroundEvery: so background work goes on also when foreground work never
// ends. In each class pieces run in the order in which they came.
//
// Background work never takes the last free slot of several. While every core has a goroutine that never waits, the
// runtime looks at the network only every 10 ms, and each small request waits for that. Scrubs never wait, but for
// their slots; downloads wait for the network.
//
// One piece, walked through: a reader calls [Pool.Enter] before it hashes a group. If a slot is free, it
// returns at once. Otherwise the reader waits in the line of its class, until [Pool.Leave] of another
// piece hands it the slot. A caller with a deadline calls [Pool.Acquire].
package cores

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/linked"
	"allium/protocols/status"
)

// Class says whether somebody waits for work.
type Class int

// The classes.
const (
	Foreground Class = iota // somebody waits for it
	Background              // nobody does
	classes
)

func (c Class) String() string { return [...]string{"foreground", "background"}[c] }

const (
	// backgroundEvery is the time after which background work that waits gets the next slot, whatever
	// else waits.
	backgroundEvery = 20 * time.Millisecond
	// MaxWaiting bounds the callers of Acquire that wait, of each class.
	MaxWaiting = 1024
)

// Pool shares the cores. New makes one, for all of a process. Its methods are safe for concurrent use. A
// nil Pool has no bound.
type Pool struct {
	cores  int
	waited *prometheus.HistogramVec // class
	waits  [classes]prometheus.Observer

	mu     sync.Mutex // guards what follows; lock: leaf
	used   [classes]int
	lines  [classes]linked.List[waiter]
	served time.Time // when background work got a slot last, or began to wait
}

// waiter is a piece of work that waits.
type waiter struct {
	turn   chan struct{} // closed when it has a slot
	inLine linked.Node[waiter]
}

// New returns a pool of so many cores (≥ 1).
func New(cores int) *Pool {
	p := &Pool{cores: max(1, cores), waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "cpu_wait_seconds",
		Help: "How long work that found all cores busy waited for one, by class: foreground (somebody waits for it) " +
			"or background, as scrubs. All nodes of a process share the cores.",
		Buckets: prometheus.ExponentialBuckets(.00001, 4, 10),
	}, []string{"class"})}
	for c := range classes {
		p.waits[c] = p.waited.WithLabelValues(c.String())
	}
	return p
}

// Register registers the metric cpu_wait_seconds of the pool with reg.
func (p *Pool) Register(reg prometheus.Registerer) { reg.MustRegister(p.waited) }

// Cores returns the maximum number of pieces that run at once.
func (p *Pool) Cores() int { return p.cores }

// InUse returns how many pieces run.
func (p *Pool) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used[Foreground] + p.used[Background]
}

// Waiting returns how many pieces wait in the longer of the two lines.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.lines[Foreground].Len(), p.lines[Background].Len())
}

// Enter waits for a slot and takes it. It is for pieces of at most 64 KiB, one at a time for each caller. The caller
// calls Leave with the same class after the piece.
func (p *Pool) Enter(c Class) {
	if p == nil {
		return
	}
	w, _ := p.begin(c, false)
	if w == nil {
		return
	}
	start := time.Now()
	<-w.turn
	p.waits[c].Observe(time.Since(start).Seconds())
}

// Acquire is Enter for larger pieces, and for callers with a deadline. The error is busy if too many wait,
// and timeout or canceled if ctx ends first; then the caller does not call Leave.
func (p *Pool) Acquire(ctx context.Context, c Class) error {
	if p == nil {
		return nil
	}
	w, err := p.begin(c, true)
	if w == nil || err != nil {
		return err
	}
	start := time.Now()
	defer func() { p.waits[c].Observe(time.Since(start).Seconds()) }()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	if p.forget(c, w) {
		return status.Errorf(status.Of(ctx.Err()), "no core was free within the time of the request: %w", ctx.Err())
	}
	return nil // it got the slot at the same time
}

// begin takes a slot, or else returns the waiter that it put in the line.
func (p *Pool) begin(c Class, bounded bool) (*waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free(c) && p.lines[c].Len() == 0 && (c == Foreground || p.lines[Foreground].Len() == 0) {
		p.take(c)
		return nil, nil
	}
	if bounded && p.lines[c].Len() >= MaxWaiting {
		return nil, status.BusyError(status.Busy,
			status.Limit{Name: LimitWaiting, Current: MaxWaiting, Cap: MaxWaiting, RetryAfter: time.Second})
	}
	if c == Background && p.lines[c].Len() == 0 {
		p.served = time.Now()
	}
	w := &waiter{turn: make(chan struct{})}
	p.lines[c].Push(&w.inLine, w)
	return w, nil
}

// LimitWaiting is the name of the limit of callers of Acquire that wait.
const LimitWaiting = "cpu.waiting"

// forget removes w from the line. It returns false if w has a slot.
func (p *Pool) forget(c Class, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.turn:
		return false
	default:
		p.lines[c].Remove(&w.inLine)
		p.grant() // w may have kept background work waiting
		return true
	}
}

// Leave gives back a slot.
func (p *Pool) Leave(c Class) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[c]--
	p.grant()
}

// free reports whether a slot is free for the class. The caller holds p.mu.
func (p *Pool) free(c Class) bool {
	most := p.cores
	if c == Background {
		most = max(1, p.cores-1)
	}
	return p.used[Foreground]+p.used[Background] < most
}

// take takes a free slot. The caller holds p.mu.
func (p *Pool) take(c Class) {
	p.used[c]++
	if c == Background && p.lines[c].Len() > 0 {
		p.served = time.Now()
	}
}

// grant gives the free slots to those that wait. The caller holds p.mu.
func (p *Pool) grant() {
	for {
		c := Foreground
		late := time.Since(p.served) >= backgroundEvery && p.used[Background] < max(1, p.cores-1)
		if p.lines[Background].Len() > 0 && (late || p.lines[Foreground].Len() == 0 && p.free(Background)) {
			c = Background
		}
		w := p.lines[c].Oldest()
		if w == nil || !p.free(Foreground) {
			return
		}
		p.lines[c].Remove(&w.inLine)
		p.take(c)
		close(w.turn)
	}
}
