package reach

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/ipgroup"
	"allium/internal/limits"
)

// server relays for others while it is on. The library enforces the bounds of a circuit and of a peer; server bounds
// all circuits together and decides which peers are served.
type server struct {
	s       *Service
	running *relay.Relay // nil while it is off; only the service's loop uses it

	bounds   *limits.Usage // of circuits
	reserved *limits.Usage
	rate     *limits.Rate // bytes of all circuits

	open    atomic.Int64 // circuits
	places  atomic.Int64 // reservations
	overdue atomic.Int64 // bytes relayed for which no token was taken
}

// relayPiece is the unit of the rate in bytes: a token of limits.Rate.
const relayPiece = 64 << 10

func newServer(s *Service) *server {
	r := &server{s: s}
	r.bounds = s.deps.Limits.NewUsage(limits.Spec{
		Name: "relay.circuits", Path: "peers → connections relayed for them", Policy: "refused",
	}, circuits, r.open.Load)
	r.reserved = s.deps.Limits.NewUsage(limits.Spec{
		Name: "relay.reservations", Path: "peers → places at this relay", Policy: "refused",
	}, reservations, r.places.Load)
	r.rate = s.deps.Limits.NewRate(limits.Spec{
		Name: "relay.bytes", Path: "relayed connections → 64 KiB relayed",
		Policy: "no circuit is opened until it is made up",
	}, relayRate/relayPiece, relayBurst/relayPiece)
	return r
}

// resources returns the bounds that the library enforces.
func resources() relay.Resources {
	r := relay.DefaultResources()
	r.Limit = &relay.RelayLimit{Duration: circuitTime, Data: circuitBytes}
	r.MaxReservations, r.MaxCircuits = reservations, peerCircuits
	r.MaxReservationsPerIP, r.MaxReservationsPerASN = ipReservation, asReservation
	return r
}

// set turns the service on or off.
func (r *server) set(direct bool) {
	switch on := r.s.cfg.Serve && direct; {
	case on && r.running == nil:
		running, err := relay.New(r.s.host, relay.WithResources(resources()), relay.WithACL(r),
			relay.WithMetricsTracer(r))
		if err != nil {
			r.s.log.Warn("this node does not relay for others", "err", err)
			return
		}
		r.running = running
		r.s.on.Store(true)
		r.s.log.Info("this node relays for others", "circuits", circuits, "bytes", circuitBytes, "time", circuitTime)
	case !on:
		r.stop()
	}
}

// stop turns the service off.
func (r *server) stop() {
	if r.running == nil {
		return
	}
	_ = r.running.Close() // it returns no error
	r.running = nil
	r.s.on.Store(false)
	r.s.log.Info("this node does not relay for others any more")
}

// identifier is a host that learns what peers speak.
type identifier interface{ IDService() identify.IDService }

// speaksOurs reports whether a peer speaks one of our protocols. A peer that connected just now is identified
// first, so it waits up to identifyWait.
func (r *server) speaksOurs(p peer.ID) bool {
	h := r.s.host
	if ids, ok := h.(identifier); ok {
		late := time.NewTimer(identifyWait)
		defer late.Stop()
		for _, c := range h.Network().ConnsToPeer(p) {
			select {
			case <-ids.IDService().IdentifyWait(c):
			case <-late.C:
				return false
			}
		}
	}
	spoken, err := h.Peerstore().SupportsProtocols(p, r.s.cfg.Protocols...)
	return err == nil && len(spoken) > 0
}

// AllowReserve implements relay.ACLFilter.
func (r *server) AllowReserve(p peer.ID, _ ma.Multiaddr) bool { return r.speaksOurs(p) }

// AllowConnect implements relay.ACLFilter.
func (r *server) AllowConnect(src peer.ID, _ ma.Multiaddr, dest peer.ID) bool {
	if r.open.Load() >= circuits {
		r.bounds.Refuse()
		return false
	}
	if !r.paid() && r.rate.Allow() != nil { // Allow counts the refusal
		return false
	}
	return r.opened(src) <= peerCircuits && r.speaksOurs(src) &&
		r.s.host.Network().Connectedness(dest) == network.Connected
}

// opened returns how many circuits peers at the address of p have opened or are opening. The library counts
// only those of p, and peers cost nothing.
func (r *server) opened(p peer.ID) (n int) {
	conns := r.s.host.Network().Conns()
	addresses := map[netip.Prefix]bool{}
	for _, c := range conns {
		if c.RemotePeer() == p {
			at, _ := ipgroup.Address(c.RemoteMultiaddr())
			addresses[at] = true
		}
	}
	for _, c := range conns {
		if at, _ := ipgroup.Address(c.RemoteMultiaddr()); !addresses[at] {
			continue
		}
		for _, st := range c.GetStreams() {
			if st.Protocol() == proto.ProtoIDv2Hop && st.Stat().Direction == network.DirInbound {
				n++
			}
		}
	}
	return n
}

// paid takes tokens for the bytes that were relayed, and reports whether there were enough.
func (r *server) paid() bool {
	for r.overdue.Load() >= relayPiece {
		if !r.rate.Take() {
			return false
		}
		r.overdue.Add(-relayPiece)
	}
	return true
}

// RelayStatus implements relay.MetricsTracer.
func (r *server) RelayStatus(on bool) {
	if !on {
		r.places.Store(0)
	}
}

// ConnectionOpened implements relay.MetricsTracer.
func (r *server) ConnectionOpened() {
	r.open.Add(1)
	r.bounds.Grown()
}

// ConnectionClosed implements relay.MetricsTracer.
func (r *server) ConnectionClosed(time.Duration) { r.open.Add(-1) }

// ConnectionRequestHandled implements relay.MetricsTracer.
func (r *server) ConnectionRequestHandled(st pb.Status) {
	r.handled("connected", "connect_refused", st)
}

// ReservationAllowed implements relay.MetricsTracer.
func (r *server) ReservationAllowed(renewal bool) {
	if !renewal {
		r.places.Add(1)
		r.reserved.Grown()
	}
}

// ReservationClosed implements relay.MetricsTracer.
func (r *server) ReservationClosed(n int) { r.places.Add(-int64(n)) }

// ReservationRequestHandled implements relay.MetricsTracer.
func (r *server) ReservationRequestHandled(st pb.Status) {
	if st == pb.Status_RESERVATION_REFUSED {
		r.reserved.Refuse()
	}
	r.handled("reserved", "reserve_refused", st)
}

func (r *server) handled(ok, refused string, st pb.Status) {
	if st != pb.Status_OK {
		ok = refused
	}
	r.s.m.served.WithLabelValues(ok).Inc()
}

// BytesTransferred implements relay.MetricsTracer. Bytes for which the rate has no token are overdue: no circuit is
// opened until they are paid.
func (r *server) BytesTransferred(n int) {
	r.s.m.relayedBytes.Add(float64(n))
	r.overdue.Add(int64(n))
	r.paid()
}
