package session

import (
	"context"
	"errors"
	"time"

	"allium/internal/limits"
)

// permits limits the queued frames of one peer over all its sessions. A frame permit
// is taken before the frame exists, so every frame with a permit can be queued. Bytes
// are charged before the frame is queued.
type permits struct {
	frames *limits.Budget // frames of the peer
	bytes  *limits.Budget // payload bytes of the peer
	node   *limits.Budget // payload bytes of all peers
	wait   time.Duration
	m      *metrics

	// dropOldest drops the peer's oldest frame that frees some of b, for egress_policy
	// drop_oldest. It is nil for reject.
	dropOldest func(b *limits.Budget, n int64) bool

	// dropFromLargest drops a frame of a peer that holds more of node than this peer.
	dropFromLargest func(n int64) bool
}

// take takes n of b, if needed after it dropped other frames. It does not wait. It
// returns false if that frees too little.
func (p *permits) take(b *limits.Budget, n int64) bool {
	for !b.Take(n) {
		switch {
		case b == p.node:
			if !p.dropFromLargest(n) {
				return false
			}
		case p.dropOldest == nil || !p.dropOldest(b, n):
			return false
		}
	}
	return true
}

// acquireForReader takes a frame permit for a reader. The wait needs no limit: the frames with permits are written, or
// their stream fails, within write_timeout.
func (p *permits) acquireForReader(dead context.Context) error {
	if p.frames.Take(1) {
		return nil
	}
	return p.frames.Acquire(dead, 1)
}

// frame takes a frame permit for a call. It waits at most p.wait; then the error is
// busy.
func (p *permits) frame(ctx, dead context.Context) error { return p.acquire(ctx, dead, p.frames, 1) }

// charge charges n bytes to the peer and the node. It waits at most p.wait for each
// budget; then the error is busy.
func (p *permits) charge(ctx, dead context.Context, n int64) error {
	if n == 0 {
		return nil
	}
	if err := p.acquire(ctx, dead, p.bytes, n); err != nil {
		return err
	}
	if err := p.acquire(ctx, dead, p.node, n); err != nil {
		p.bytes.Release(n)
		return err
	}
	return nil
}

// tryCharge is like charge but does not wait.
func (p *permits) tryCharge(n int64) error {
	if n == 0 {
		return nil
	}
	if !p.take(p.bytes, n) {
		return p.bytes.Refuse(n)
	}
	if !p.take(p.node, n) {
		p.bytes.Release(n)
		return p.node.Refuse(n)
	}
	return nil
}

// release releases frame permits and bytes.
func (p *permits) release(frames, bytes int64) {
	if bytes > 0 {
		p.node.Release(bytes)
		p.bytes.Release(bytes)
	}
	p.frames.Release(frames)
}

// acquire takes n of b. It waits until ctx or dead ends, and at most p.wait. After
// p.wait, or at the deadline of ctx, the error is busy.
func (p *permits) acquire(ctx, dead context.Context, b *limits.Budget, n int64) error {
	if p.take(b, n) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	defer context.AfterFunc(dead, cancel)()
	err := b.Acquire(bounded, n)
	if err == nil || bounded.Err() == nil {
		return err
	}
	p.m.backpressure.Inc()
	if cause := context.Cause(dead); cause != nil {
		return cause
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause // the caller gave up
	}
	return b.TryAcquire(n) // types and counts the refusal
}
