package gossip

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// openTimeout is the longest that opening a stream may take. pubsub itself sets no limit.
const openTimeout = 10 * time.Second

// guardedHost is the host that pubsub uses. It records the gossip streams that peers open, because
// pubsub never closes them: close ends these streams and waits for their readers.
type guardedHost struct {
	host.Host

	mu      sync.Mutex
	closed  bool
	ids     []protocol.ID               // protocols with a stream handler
	streams map[network.Stream]struct{} // open streams of peers
	readers sync.WaitGroup              // one for each of streams
}

func newGuardedHost(h host.Host) *guardedHost {
	return &guardedHost{Host: h, streams: map[network.Stream]struct{}{}}
}

// SetStreamHandler implements host.Host. It resets streams that arrive after close.
func (h *guardedHost) SetStreamHandler(id protocol.ID, handle network.StreamHandler) {
	h.mu.Lock()
	h.ids = append(h.ids, id)
	h.mu.Unlock()
	h.Host.SetStreamHandler(id, func(s network.Stream) {
		if !h.enter(s) {
			_ = s.ResetWithError(network.StreamShutdown)
			return
		}
		defer h.leave(s)
		handle(s)
	})
}

// NewStream implements host.Host, with a deadline of openTimeout.
func (h *guardedHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return h.Host.NewStream(ctx, p, ids...)
}

// enter records an open stream. It returns false if the host is closed.
func (h *guardedHost) enter(s network.Stream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.streams[s] = struct{}{}
	h.readers.Add(1)
	return true
}

// leave forgets a stream whose handler has returned.
func (h *guardedHost) leave(s network.Stream) {
	h.mu.Lock()
	delete(h.streams, s)
	h.mu.Unlock()
	h.readers.Done()
}

// close removes the stream handlers from the host, resets the streams that peers opened and waits
// for their readers. The caller cancels pubsub's context first, which ends the streams that pubsub
// opened.
func (h *guardedHost) close() {
	h.mu.Lock()
	h.closed = true
	streams := make([]network.Stream, 0, len(h.streams))
	for s := range h.streams {
		streams = append(streams, s)
	}
	ids := h.ids
	h.mu.Unlock()
	for _, id := range ids {
		h.Host.RemoveStreamHandler(id)
	}
	for _, s := range streams {
		_ = s.ResetWithError(network.StreamShutdown)
	}
	h.readers.Wait()
}
