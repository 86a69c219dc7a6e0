package guard

import (
	"runtime/debug"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/internal/ipgroup"
)

// Host returns h with the guard in front of the stream handler that is set for
// id: messages above maxMessage bytes, their length not counted, and what the
// limits refuse reset the stream with a code. All else passes through. The
// handler reads and writes on one goroutine, reads messages that each have
// their length before them as an unsigned varint, and sets no deadlines. A
// panic of it resets its stream and is logged and counted.
func (g *Guard) Host(h host.Host, id protocol.ID, maxMessage int) host.Host {
	return &guarded{Host: h, g: g, id: id, max: maxMessage}
}

// guarded is a host with one handler guarded.
type guarded struct {
	host.Host
	g   *Guard
	id  protocol.ID
	max int
}

// SetStreamHandler implements host.Host.
func (h *guarded) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	if id == h.id {
		handle := f
		f = func(s network.Stream) { h.g.serve(s, handle, h.max) }
	}
	h.Host.SetStreamHandler(id, f)
}

// serve runs a handler behind the guard, on the goroutine that the host made
// for the stream.
func (g *Guard) serve(raw network.Stream, handle network.StreamHandler, maxMessage int) {
	free, err := g.Stream(ipgroup.Of(raw.Conn().RemoteMultiaddr()))
	if err != nil { // the code says it
		_ = raw.ResetWithError(network.StreamResourceLimitExceeded)
		return
	}
	defer free()
	s := newStream(raw, g, maxMessage)
	r := g.join(s)
	if r == nil {
		_ = raw.ResetWithError(network.StreamShutdown)
		return
	}
	defer g.part(s, r)
	s.ctx = r.ctx
	g.m.streams.Inc()
	defer g.m.streams.Dec()
	defer s.finish()
	defer func() {
		if p := recover(); p != nil {
			g.m.panics.Inc()
			g.log.Error("dht: a routing handler panicked", "panic", p, "stack", string(debug.Stack()))
			_ = s.Reset()
		}
	}()
	handle(s)
}
