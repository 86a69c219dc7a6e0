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

// openTimeout bounds the opening of a stream, in pubsub's stead.
const openTimeout = 10 * time.Second

// guardedHost is the host as pubsub sees it: it knows pubsub's streams, which
// pubsub itself never closes, and so can end them and wait for their readers.
type guardedHost struct {
	host.Host

	mu      sync.Mutex
	closed  bool
	ids     []protocol.ID
	streams map[network.Stream]struct{}
	readers sync.WaitGroup
}

func newGuardedHost(h host.Host) *guardedHost {
	return &guardedHost{Host: h, streams: map[network.Stream]struct{}{}}
}

// SetStreamHandler implements host.Host.
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

// NewStream implements host.Host.
func (h *guardedHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return h.Host.NewStream(ctx, p, ids...)
}

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

func (h *guardedHost) leave(s network.Stream) {
	h.mu.Lock()
	delete(h.streams, s)
	h.mu.Unlock()
	h.readers.Done()
}

// close takes the protocol off the host, ends the streams that peers opened and
// waits for their readers. pubsub's context has ended before: its own streams
// end by that.
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
