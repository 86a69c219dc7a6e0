package access

import (
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// Gater returns the connection gater that asks the list at dials, accepts and handshakes.
func (l *List) Gater() connmgr.ConnectionGater { return gater{l} }

type gater struct{ l *List }

// pass returns !denied and counts a denial.
func (g gater) pass(where string, denied bool) bool {
	if denied {
		g.l.count(where)
	}
	return !denied
}

// InterceptPeerDial implements connmgr.ConnectionGater.
func (g gater) InterceptPeerDial(id peer.ID) bool {
	return g.pass(whereDial, g.l.current.Load().denied(id))
}

// InterceptAddrDial implements connmgr.ConnectionGater.
func (g gater) InterceptAddrDial(id peer.ID, at ma.Multiaddr) bool {
	return g.pass(whereDial, g.l.current.Load().deniedAt(id, placeOf(at)))
}

// InterceptAccept implements connmgr.ConnectionGater. The peer is not known yet.
func (g gater) InterceptAccept(c network.ConnMultiaddrs) bool {
	return g.pass(whereAccept, g.l.current.Load().deniedFrom(placeOf(c.RemoteMultiaddr())))
}

// InterceptSecured implements connmgr.ConnectionGater.
func (g gater) InterceptSecured(_ network.Direction, id peer.ID, c network.ConnMultiaddrs) bool {
	return g.pass(whereHandshake, g.l.current.Load().deniedAt(id, placeOf(c.RemoteMultiaddr())))
}

// InterceptUpgraded implements connmgr.ConnectionGater. InterceptSecured has decided.
func (gater) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }
