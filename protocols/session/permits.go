package session

import (
	"context"
	"errors"
	"time"

	"allium/internal/limits"
)

// permits bound what is promised to one peer over all its sessions: a frame
// permit is taken before there is a frame, so that a queue of as many places
// always has room for it, and bytes are charged when it is queued.
type permits struct {
	frames *limits.Budget // frames of the peer
	bytes  *limits.Budget // payload bytes of the peer
	node   *limits.Budget // payload bytes of all peers
	wait   time.Duration
	m      *metrics

	// makeRoom drops the oldest of the peer's frames that frees some of a
	// budget (egress_policy drop_oldest); nil: none is dropped.
	makeRoom func(b *limits.Budget, n int64) bool

	// outweigh drops frames of a peer that holds more of node than this one.
	outweigh func(n int64) bool
}

// take takes n of b if they are free or can be made so.
func (p *permits) take(b *limits.Budget, n int64) bool {
	for !b.Take(n) {
		switch {
		case b == p.node:
			if !p.outweigh(n) {
				return false
			}
		case p.makeRoom == nil || !p.makeRoom(b, n):
			return false
		}
	}
	return true
}

// hold takes a frame permit for a reader. It waits as long as it takes: the
// writers that hold the permits get on or fail within write_timeout.
func (p *permits) hold(dead context.Context) error {
	if p.frames.Take(1) {
		return nil
	}
	return p.frames.Acquire(dead, 1)
}

// frame takes a frame permit for a call, waiting at most p.wait; then status
// busy.
func (p *permits) frame(ctx, dead context.Context) error { return p.acquire(ctx, dead, p.frames, 1) }

// charge takes n bytes, waiting at most p.wait for each budget; then status
// busy.
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

// tryCharge is charge without waiting.
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

// release gives frame permits and bytes back.
func (p *permits) release(frames, bytes int64) {
	if bytes > 0 {
		p.node.Release(bytes)
		p.bytes.Release(bytes)
	}
	p.frames.Release(frames)
}

// acquire takes n of b, waiting until ctx's deadline, the end of the session
// and at most p.wait; then status busy.
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
