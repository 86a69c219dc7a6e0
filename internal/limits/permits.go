package limits

import (
	"context"
	"sync"

	"allium/internal/linked"
)

// permits is a weighted semaphore whose size can change: a [Gate] of places, or a [Budget] of bytes.
// Callers that wait are served in the order in which they came.
//
// When the size shrinks, callers keep the permits that they have. A caller must never ask for more than the smallest
// size: it would wait forever, and so would everyone behind it.
type permits struct {
	m meter // its capacity is the size

	mu   sync.Mutex // guards what follows; lock: leaf
	used int64
	line linked.List[permitWaiter]
}

// permitWaiter is a caller that waits for n permits.
type permitWaiter struct {
	n       int64
	done    bool          // it has them; guarded by permits.mu
	granted chan struct{} // closed then
	node    linked.Node[permitWaiter]
}

// init makes n permits (≥ 1), which are not listed yet.
func (p *permits) init(s Spec, kind Kind, n int64) {
	l := &limit{spec: s, kind: kind, depth: s.Fullest}
	if s.Each != "" && s.Fullest == nil {
		l.members = &members{}
		l.depth = l.members.fullest
	}
	p.m.init(l, n)
}

// try takes n permits if they are free and nobody waits, and reports whether it did.
func (p *permits) try(n int64) bool {
	p.mu.Lock()
	ok := p.line.Len() == 0 && p.used+n <= p.m.cap()
	if ok {
		p.used += n
	}
	p.mu.Unlock()
	if ok {
		p.m.take(n)
	}
	return ok
}

// enter takes n permits, or returns the refusal if they are not free now.
func (p *permits) enter(n int64) error {
	if p.try(n) {
		return nil
	}
	return p.m.refuse(n)
}

// leave gives n permits back, and reports whether none are in use now.
func (p *permits) leave(n int64) (idle bool) {
	p.m.give(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
	p.serve()
	return p.used == 0
}

// acquire waits until n permits are free and takes them. It returns the refusal if most others wait,
// and ctx's error if ctx ends first.
func (p *permits) acquire(ctx context.Context, n, most int64) error {
	w, ahead := p.join(n, most)
	if w == nil {
		return p.m.refuse(ahead + 1)
	}
	return p.await(ctx, w)
}

// join adds a waiter to the line, with ahead others before it, or returns nil if most others wait.
// The caller calls await.
func (p *permits) join(n, most int64) (w *permitWaiter, ahead int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ahead = int64(p.line.Len()); ahead >= most {
		return nil, ahead
	}
	w = &permitWaiter{n: n, granted: make(chan struct{})}
	p.line.Push(&w.node, w)
	p.serve()
	return w, ahead
}

// await waits until w has its permits. If ctx ends first, w leaves the line.
func (p *permits) await(ctx context.Context, w *permitWaiter) error {
	select {
	case <-w.granted:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		p.m.take(w.n)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.done { // at the same time
		p.used -= w.n
	} else {
		p.line.Remove(&w.node)
	}
	p.serve()
	return ctx.Err()
}

// serve gives what is free to those that wait longest. The caller holds mu.
func (p *permits) serve() {
	for w := p.line.Oldest(); w != nil && p.used+w.n <= p.m.cap(); w = p.line.Oldest() {
		p.line.Remove(&w.node)
		p.used += w.n
		w.done = true
		close(w.granted)
	}
}

// Resize sets the size to n (≥ 1) places or bytes. No caller may take more than n at once. If more than n are in use,
// their holders keep them. Existing members of a family keep their size.
func (p *permits) Resize(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m.size.Store(n)
	p.serve()
}

// Used returns how many places, or bytes, are in use.
func (p *permits) Used() int64 { return p.m.inUse() }

// idle reports whether none are in use.
func (p *permits) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used == 0
}

// waiting returns how many callers wait.
func (p *permits) waiting() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.line.Len())
}
