package allowance

import (
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/guard"
)

// Host returns h with the guard around the stream handler for id. A message above
// maxMessage bytes, without its length prefix, and every refusal reset the stream with a
// code. Other protocols are not affected.
//
// The handler must read and write on one goroutine, read messages that each have their
// length as an unsigned varint in front, and set no deadlines. If it panics, its stream is
// reset, and the panic is logged and counted.
func (g *Guard) Host(h host.Host, id protocol.ID, maxMessage int) host.Host {
	return &guardedHost{Host: h, g: g, id: id, max: maxMessage}
}

// guardedHost is a host with one guarded handler.
type guardedHost struct {
	host.Host
	g   *Guard
	id  protocol.ID
	max int
}

// SetStreamHandler implements host.Host.
func (h *guardedHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	if id == h.id {
		handle := f
		f = func(s network.Stream) { h.g.serve(s, handle, h.max) }
	}
	h.Host.SetStreamHandler(id, f)
}

// serve runs a handler behind the guard, on the goroutine that the host started for the
// stream.
func (g *Guard) serve(raw network.Stream, handle network.StreamHandler, maxMessage int) {
	s := newStream(raw, g, maxMessage)
	r := g.join(s)
	if r == nil {
		_ = raw.ResetWithError(network.StreamShutdown)
		return
	}
	defer g.leave(s, r) // after all else: when Run has returned, nothing is taken
	free, err := g.Stream(s.group)
	if err != nil {
		_ = raw.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer free()
	s.ctx = r.ctx
	g.m.streams.Inc()
	defer g.m.streams.Dec()
	defer s.releaseAll()
	panics := guard.Guard{Log: g.log, Panics: g.m.panics}
	if panics.Run("a routing handler panicked", func() error { handle(s); return nil }, nil) != nil {
		_ = s.Reset()
	}
}
