package p2p

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	// nearQUICDelay is the time that QUIC waits for the last TCP dial on loopback and private
	// addresses. TCP with TLS takes three round trips, so it is done by then on any LAN.
	nearQUICDelay = 100 * time.Millisecond

	// relayDelay is the time that dials through relays wait for direct dials.
	relayDelay = 250 * time.Millisecond
)

// rankDials orders the addresses of a peer and says how long each waits. Once a dial has succeeded,
// the library starts no more; if every running dial has failed, it starts the next ones at once.
//
// On loopback and private addresses TCP comes first, because it carries about twice what QUIC does
// for the same processor time. Elsewhere QUIC comes first, as it does in the library: it needs fewer
// round trips, and one lost packet does not hold up every stream. Both groups start together.
// Addresses through relays come last, and no earlier than relayDelay if there are others.
func rankDials(addrs []ma.Multiaddr) []network.AddrDelay {
	var relayed, nearStreams, nearPackets, far []ma.Multiaddr
	for _, a := range addrs {
		switch {
		case hasProtocol(a, ma.P_CIRCUIT):
			relayed = append(relayed, a)
		case !manet.IsPrivateAddr(a):
			far = append(far, a)
		case hasProtocol(a, ma.P_TCP):
			nearStreams = append(nearStreams, a)
		default:
			nearPackets = append(nearPackets, a)
		}
	}
	near := swarm.DefaultDialRanker(nearStreams)
	near = appendAfter(near, swarm.DefaultDialRanker(nearPackets), latest(near, nearQUICDelay))
	ranked := slices.Concat(near, swarm.DefaultDialRanker(far))
	var wait time.Duration
	if len(ranked) > 0 {
		wait = max(relayDelay, latest(ranked, 0))
	}
	return appendAfter(ranked, swarm.DefaultDialRanker(relayed), wait)
}

// latest returns the longest delay of the dials plus more, and 0 if there is none.
func latest(dials []network.AddrDelay, more time.Duration) time.Duration {
	var most time.Duration
	for _, d := range dials {
		most = max(most, d.Delay+more)
	}
	return most
}

// appendAfter appends later to dials, each dial delayed by wait.
func appendAfter(dials, later []network.AddrDelay, wait time.Duration) []network.AddrDelay {
	for _, d := range later {
		d.Delay += wait
		dials = append(dials, d)
	}
	return dials
}

// hasProtocol reports whether a has a component of the protocol.
func hasProtocol(a ma.Multiaddr, code int) bool {
	return slices.ContainsFunc(a, func(c ma.Component) bool { return c.Code() == code })
}
