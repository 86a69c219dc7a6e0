package reach

import (
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	ma "github.com/multiformats/go-multiaddr"
)

// punches counts hole punches by the type of the own NAT.
type punches struct {
	holepunch.MetricsTracer // the library's; nil without metrics
	s                       *Service
	udp, tcp                atomic.Int32 // network.NATDeviceType
}

func newPunches(s *Service) *punches {
	p := &punches{s: s}
	if s.deps.Metrics != nil {
		p.MetricsTracer = holepunch.NewMetricsTracer(holepunch.WithRegisterer(s.deps.Metrics))
	}
	return p
}

// HolePunching returns the options of the host's hole punching.
func (s *Service) HolePunching() []holepunch.Option {
	return []holepunch.Option{holepunch.WithMetricsTracer(s.punches), holepunch.DirectDialTimeout(punchTimeout)}
}

// natChanged notes the type of the own NAT.
func (p *punches) natChanged(e event.EvtNATDeviceTypeChanged) {
	if e.TransportProtocol == network.NATTransportTCP {
		p.tcp.Store(int32(e.NatDeviceType))
	} else {
		p.udp.Store(int32(e.NatDeviceType))
	}
}

// natOf returns the type of the own NAT for TCP or UDP, as the metric calls it.
func (p *punches) natOf(tcp bool) string {
	kind := &p.udp
	if tcp {
		kind = &p.tcp
	}
	switch network.NATDeviceType(kind.Load()) {
	case network.NATDeviceTypeEndpointIndependent:
		return "endpoint_independent"
	case network.NATDeviceTypeEndpointDependent:
		return "endpoint_dependent"
	}
	return "unknown"
}

// HolePunchFinished implements holepunch.MetricsTracer.
func (p *punches) HolePunchFinished(
	side string, tries int, theirs, ours []ma.Multiaddr, direct network.ConnMultiaddrs,
) {
	if p.MetricsTracer != nil {
		p.MetricsTracer.HolePunchFinished(side, tries, theirs, ours, direct)
	}
	transport, result := "none", "failed"
	if direct != nil {
		result = "ok"
		if transport = "udp"; has(direct.RemoteMultiaddr(), ma.P_TCP) {
			transport = "tcp"
		}
	}
	p.s.m.punches.WithLabelValues(p.natOf(transport == "tcp"), transport, result).Inc()
}

// DirectDialFinished implements holepunch.MetricsTracer.
func (p *punches) DirectDialFinished(ok bool) {
	if p.MetricsTracer != nil {
		p.MetricsTracer.DirectDialFinished(ok)
	}
	p.s.m.reversals.WithLabelValues(map[bool]string{true: "ok", false: "failed"}[ok]).Inc()
}

// has reports whether an address has a protocol.
func has(a ma.Multiaddr, code int) bool {
	_, err := a.ValueForProtocol(code)
	return err == nil
}
