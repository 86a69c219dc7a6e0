// Package inbound bounds the memory of frames that peers have begun to send: one
// limit for the sessions and the object streams of a node, in both directions.
//
// A stream takes bytes as its buffer grows, which it does only when what was
// received fills it. So a frame that was announced costs nothing until it comes.
// When bytes are short the streams of the network with most make room, see
// [limits.Memory]; peers of one IP group count as one.
package inbound

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/ipgroup"
	"allium/internal/limits"
)

// wait bounds how long a stream waits for bytes, in the middle of a frame. It is
// shorter than a peer waits for its answer.
const wait = 2 * time.Second

// Memory is the limit. A nil Memory bounds nothing.
type Memory struct{ m *limits.Memory[string] }

// New returns a limit of that many bytes (≥ 1).
func New(registry *limits.Registry, bytes int64) *Memory {
	return &Memory{limits.NewMemory[string](registry, limits.Spec{
		Name: "oap.inbound_bytes", Path: "streams → frames of peers that are not complete",
		Policy: "the largest frame of the IP group with most, if more than who asks would have, makes room: stream reset, call busy; else wait up to 2 s, then the same",
	}, bytes, wait)}
}

// Used is how many bytes are held.
func (m *Memory) Used() int64 { return m.m.Used() }

// Buffer accounts for the buffer of one stream's reader. It implements
// oap.Memory; but for Evicted its methods are for the reader's goroutine.
type Buffer struct {
	h       *limits.Holder[string]
	ctx     context.Context
	pause   func(time.Time)
	evicted atomic.Pointer[error]
	stop    func() bool
	reset   chan struct{} // closed when the stream was reset to make room
}

// Open returns the account of a stream on the connection c. reset ends the stream
// when it has to make room; it runs in a goroutine of its own, which Close waits
// for. pause, if any, is told that this node, and not the peer, takes its time.
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

// During makes the waits that follow end with ctx.
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

// Evicted returns why the stream made room, or nil.
func (b *Buffer) Evicted() error {
	if b == nil {
		return nil
	}
	if err := b.evicted.Load(); err != nil {
		return *err
	}
	return nil
}

// Close gives everything back.
func (b *Buffer) Close() {
	if b == nil {
		return
	}
	b.h.Close()
	if !b.stop() {
		<-b.reset
	}
}
