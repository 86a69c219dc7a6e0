package reach

import (
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
)

// paths knows whether UDP and IPv6 pass from here to the Internet. While they do not, peers are not dialled
// that way, except for one try in pathTries, and this node does not dial on request (AutoNAT v2) that way: its
// answer would be wrong.
//
// The library's own counters need 100 dials before a node dials on request at all, which a node of a small
// network, or a seed that others dial, never makes. Here every connection counts, and one is enough.
type paths struct {
	udp, ipv6 *swarm.BlackHoleSuccessCounter
}

// pathTries is the number of dials in succession that must fail until a path counts as shut.
const pathTries = 10

func newPaths() paths {
	return paths{
		udp:  &swarm.BlackHoleSuccessCounter{N: pathTries, MinSuccesses: 1, Name: "UDP"},
		ipv6: &swarm.BlackHoleSuccessCounter{N: pathTries, MinSuccesses: 1, Name: "IPv6"},
	}
}

// Paths returns what the host asks whether UDP and IPv6 pass.
func (s *Service) Paths() (udp, ipv6 *swarm.BlackHoleSuccessCounter) {
	return s.paths.udp, s.paths.ipv6
}

// blocked is the state of a counter that lets one dial in pathTries through. The library names it in text alone.
const blocked = "Blocked"

// forget forgets the failures of the paths that count as shut. While no connection passes at all, the Internet is away,
// which says nothing of one path: a node whose peers have QUIC alone would be alone for minutes after it is back.
func (p paths) forget() {
	for _, c := range []*swarm.BlackHoleSuccessCounter{p.udp, p.ipv6} {
		if c.State().String() == blocked {
			c.RecordResult(true) // begins anew
		}
	}
}

// connected notes that a connection passed.
func (p paths) connected(c network.Conn) {
	if !isPublic(c) {
		return
	}
	for range pathTries {
		if has(c.RemoteMultiaddr(), ma.P_UDP) {
			p.udp.RecordResult(true)
		}
		if has(c.RemoteMultiaddr(), ma.P_IP6) {
			p.ipv6.RecordResult(true)
		}
	}
}
