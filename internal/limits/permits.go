package limits

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// allPermits is more than any limit has.
const allPermits = math.MaxInt64 / 2

// permits is a weighted semaphore whose size can change. Callers that wait are served in the
// order in which they came.
//
// A size that shrinks takes nothing away from who has it: what is missing is kept back as it
// is released. A caller must never ask for more than the smallest size: nothing would serve it,
// or who came after it.
type permits struct {
	s    *semaphore.Weighted // has allPermits, of which those beyond the size are taken
	owed atomic.Int64        // how many releases are to be kept back

	mu   sync.Mutex // guards size, and changes of owed; lock: leaf
	size int64
}

func newPermits(n int64) *permits {
	p := &permits{s: semaphore.NewWeighted(allPermits), size: n}
	p.s.TryAcquire(allPermits - n)
	return p
}

func (p *permits) acquire(ctx context.Context, n int64) error { return p.s.Acquire(ctx, n) }

func (p *permits) tryAcquire(n int64) bool { return p.s.TryAcquire(n) }

func (p *permits) release(n int64) {
	if p.owed.Load() > 0 {
		n -= p.keepBack(n)
	}
	if n > 0 {
		p.s.Release(n)
	}
}

// keepBack returns how many of n permits are not to be released, because the size shrank.
func (p *permits) keepBack(n int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := min(n, p.owed.Load())
	p.owed.Add(-kept)
	return kept
}

// resize sets the size to n (≥ 1).
func (p *permits) resize(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	grown := n - p.size
	p.size = n
	if grown >= 0 {
		forgiven := min(grown, p.owed.Load())
		p.owed.Add(-forgiven)
		if grown > forgiven {
			p.s.Release(grown - forgiven)
		}
		return
	}
	p.owed.Add(-grown)
	for step := -grown; step > 0; { // what is free is taken at once
		switch owed := p.owed.Load(); {
		case owed == 0:
			return
		case p.s.TryAcquire(min(step, owed)):
			p.owed.Add(-min(step, owed))
		default:
			step /= 2
		}
	}
}
