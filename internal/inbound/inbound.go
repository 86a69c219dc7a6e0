// Package inbound bounds the memory of incomplete frames that peers are sending. One limit
// covers the sessions and object streams of a node, in both directions.
//
// A stream takes bytes as its buffer grows, and the buffer grows only when received bytes
// fill it. A frame that is announced but not sent therefore takes no memory. When bytes run
// short, the IP group that holds most loses its largest frame, see [limits.FairBudget].
//
// One frame: the stream's handler calls [Memory.Open] when the stream begins. The frame
// reader calls [Buffer.Grow] before its buffer grows and [Buffer.Shrink] when the frame is
// complete. If another stream needs the bytes meanwhile, the buffer's reset function ends
// the stream and [Buffer.Evicted] says why. The handler calls [Buffer.Close] at the end.
package inbound

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/ipgroup"
	"allium/internal/limits"
)

// wait bounds the wait of a stream for bytes in the middle of a frame. Peers wait longer than
// this for a response.
const wait = 2 * time.Second

// Memory is the limit. A nil Memory bounds nothing. It is safe for concurrent use.
type Memory struct{ m *limits.FairBudget[string] }

// New returns a limit of the given number of bytes, 1 or more.
func New(registry *limits.Registry, bytes int64) *Memory {
	return &Memory{limits.NewFairBudget[string](registry, limits.Spec{
		Name: "oap.inbound_bytes", Path: "streams → frames of peers that are not complete",
		Policy: "evict the largest frame of the IP group with most, if that has more than the requester would: " +
			"its stream is reset, its call gets busy; else wait up to 2 s, then refuse the requester the same way",
	}, bytes, wait)}
}

// Buffer accounts for the buffer of one stream's reader. It implements oap.Memory. Only the
// reader's goroutine may call its methods, except Evicted. A nil Buffer bounds nothing.
type Buffer struct {
	h       *limits.Holder[string]
	ctx     context.Context
	pause   func(time.Time)
	evicted atomic.Pointer[error]
	stop    func() bool
	reset   chan struct{} // closed when the reset function has returned
}

// Open returns the account of a stream on connection c. If the stream must release its
// memory, reset runs once in its own goroutine; Close waits for it. pause, if not nil, is
// called when this node, and not the peer, delays the stream.
func (m *Memory) Open(ctx context.Context, c network.Conn, reset func(error), pause func(time.Time)) *Buffer {
	if m == nil {
		return nil
	}
	b := &Buffer{ctx: ctx, pause: pause, reset: make(chan struct{})}
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	b.stop = context.AfterFunc(out, func() {
		defer close(b.reset)
		reset(context.Cause(out))
	})
	b.h = m.m.Hold(ipgroup.Key(c.RemoteMultiaddr(), c.RemotePeer()), func(err error) {
		b.evicted.Store(&err)
		cancel(err)
	})
	return b
}

// During makes later waits of Grow end with ctx.
func (b *Buffer) During(ctx context.Context) {
	if b != nil {
		b.ctx = ctx
	}
}

// Grow implements oap.Memory.
func (b *Buffer) Grow(n int) error {
	if b == nil || b.h.TryGrow(int64(n)) {
		return nil
	}
	if b.pause != nil {
		b.pause(time.Now())
	}
	return b.h.Grow(b.ctx, int64(n))
}

// Shrink implements oap.Memory.
func (b *Buffer) Shrink(n int) {
	if b != nil {
		b.h.Shrink(int64(n))
	}
}

// Evicted returns why the stream lost its memory, or nil.
func (b *Buffer) Evicted() error {
	if b == nil {
		return nil
	}
	if err := b.evicted.Load(); err != nil {
		return *err
	}
	return nil
}

// Close releases all bytes and waits for a running reset function.
func (b *Buffer) Close() {
	if b == nil {
		return
	}
	b.h.Close()
	if !b.stop() {
		<-b.reset
	}
}
