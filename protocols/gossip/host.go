package gossip

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/latch"
	"allium/internal/limits"
)

// openTimeout is the longest that opening a stream may take. pubsub itself sets no limit.
const openTimeout = 10 * time.Second

// guardedHost is the host that pubsub uses. It resets the gossip streams that peers opened when
// pubsub's context ends, because pubsub never closes them.
type guardedHost struct {
	host.Host

	ctx     context.Context // pubsub's
	readers latch.Latch     // open streams of peers; closed by close

	// replaced is called when a peer opens a stream and another one of it is open.
	replaced func(old, by network.Conn)

	mu      sync.Mutex                 // lock: leaf
	ids     []protocol.ID              // protocols with a stream handler
	streams map[peer.ID]network.Stream // the latest open stream of each peer
}

// SetStreamHandler implements host.Host. It resets streams that arrive after close.
func (h *guardedHost) SetStreamHandler(id protocol.ID, handle network.StreamHandler) {
	h.mu.Lock()
	h.ids = append(h.ids, id)
	h.mu.Unlock()
	h.Host.SetStreamHandler(id, func(s network.Stream) {
		if !h.readers.Enter() {
			_ = s.ResetWithError(network.StreamShutdown)
			return
		}
		defer h.readers.Leave()
		defer h.note(s)()
		reset := make(chan struct{})
		stop := context.AfterFunc(h.ctx, func() {
			defer close(reset)
			_ = s.ResetWithError(network.StreamShutdown)
		})
		defer func() {
			if !stop() {
				<-reset // it has begun
			}
		}()
		handle(s)
	})
}

// note notes an open stream of a peer, until done is called.
func (h *guardedHost) note(s network.Stream) (done func()) {
	id := s.Conn().RemotePeer()
	h.mu.Lock()
	old := h.streams[id]
	h.streams[id] = s
	h.mu.Unlock()
	if old != nil {
		h.replaced(old.Conn(), s.Conn())
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.streams[id] == s {
			delete(h.streams, id)
		}
	}
}

// resetStream ends the latest stream that a peer opened.
func (h *guardedHost) resetStream(id peer.ID) {
	h.mu.Lock()
	s := h.streams[id]
	h.mu.Unlock()
	if s != nil {
		_ = s.Reset() // its reader ends
	}
}

// reconnect closes the connections to a peer and connects again, in at most two tries.
func (h *guardedHost) reconnect(ctx context.Context, p peer.AddrInfo, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	log.Info("gossip with a connected peer is broken; connecting to it again", "peer", p.ID)
	_ = h.Network().ClosePeer(p.ID) // a connection that cannot be closed is closed
	err := h.Connect(ctx, p)
	if err != nil && limits.Sleep(ctx, sampleInterval) == nil {
		err = h.Connect(ctx, p)
	}
	if err != nil {
		log.Info("cannot connect again to a peer with which gossip was broken", "peer", p.ID, "error", err)
	}
}

// NewStream implements host.Host, with a deadline of openTimeout.
func (h *guardedHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return h.Host.NewStream(ctx, p, ids...)
}

// close removes the stream handlers from the host and waits for the readers of the streams that
// peers opened. The caller cancels pubsub's context first, which ends all streams.
func (h *guardedHost) close() {
	h.readers.Close()
	h.mu.Lock()
	ids := h.ids
	h.mu.Unlock()
	for _, id := range ids {
		h.Host.RemoveStreamHandler(id)
	}
	h.readers.CloseAndWait()
}
