package dht

import (
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/protocols/dht/messages"
	"allium/protocols/dht/routing"
	"allium/protocols/kad"
)

// neighbours are the peers that the host knows and is connected with.
type neighbours struct {
	cfg     *atomic.Pointer[Config]
	host    host.Host
	ignores func(peer.ID) bool // see Deps.IgnorePeer
	private bool               // see Deps.PrivateNetwork
	table   *routing.Table     // set before the service runs
}

// remember stores the addresses of a peer in the peerstore for a dial that follows.
func (n *neighbours) remember(info peer.AddrInfo) {
	if len(info.Addrs) > 0 && !n.isConnected(info.ID) {
		n.host.Peerstore().AddAddrs(info.ID, info.Addrs, peerstore.TempAddrTTL)
	}
}

func (n *neighbours) isConnected(p peer.ID) bool {
	return n.host.Network().Connectedness(p) == network.Connected
}

// connected returns up to k connected peers that speak the provider exchange.
func (n *neighbours) connected() []peer.ID {
	var peers []peer.ID
	store := n.host.Peerstore()
	for _, p := range n.host.Network().Peers() {
		got, err := store.SupportsProtocols(p, ProviderID)
		if err == nil && len(got) > 0 && len(peers) < n.cfg.Load().K {
			peers = append(peers, p)
		}
	}
	return peers
}

// addrs returns the remote addresses of p's connections, or else its known addresses.
func (n *neighbours) addrs(p peer.ID) []ma.Multiaddr {
	conns := n.host.Network().ConnsToPeer(p)
	if len(conns) == 0 {
		return n.host.Peerstore().Addrs(p)
	}
	addrs := make([]ma.Multiaddr, len(conns))
	for i, c := range conns {
		addrs[i] = c.RemoteMultiaddr()
	}
	return addrs
}

// rememberAll stores the addresses of peers that a seed named, for lookups that follow.
func (n *neighbours) rememberAll(_ peer.ID, peers []peer.AddrInfo) {
	for _, p := range peers {
		n.remember(p)
	}
}

// tableAddrs returns the routing table with addresses, to be stored for the next start.
func (n *neighbours) tableAddrs() (infos []peer.AddrInfo) {
	for _, e := range n.table.Entries() {
		if info := n.host.Peerstore().PeerInfo(e.ID); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	return infos
}

// nearest returns the closer peers for the response to a request: up to k peers of the
// table nearest to key, without the asking peer, with the addresses that it may be told.
func (n *neighbours) nearest(key []byte, asking network.Conn) []peer.AddrInfo {
	var near []peer.ID
	for _, p := range n.table.Nearest(kad.Hash(key), n.cfg.Load().K+1) {
		near = append(near, p.ID)
	}
	return n.tell(near, asking)
}

// tell returns up to k of the peers without the asking one, with the addresses that it may be
// told. Peers without any are left out.
func (n *neighbours) tell(near []peer.ID, asking network.Conn) []peer.AddrInfo {
	infos := make([]peer.AddrInfo, 0, len(near))
	for _, p := range near {
		if p == asking.RemotePeer() || len(infos) == n.cfg.Load().K {
			continue
		}
		if info := n.told(p, asking); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	return infos
}

// told returns up to messages.MaxCloserAddrs addresses of p that the asking peer may be told: none of an
// ignored peer, and only public ones where the asker is outside of the networks of this node.
// A private address is of no use there and shows how somebody's network is built.
func (n *neighbours) told(p peer.ID, asking network.Conn) peer.AddrInfo {
	info := peer.AddrInfo{ID: p}
	if n.ignores(p) {
		return info
	}
	publicOnly := !n.private && isOutside(asking.RemoteMultiaddr())
	for _, a := range n.host.Peerstore().Addrs(p) {
		if len(info.Addrs) == messages.MaxCloserAddrs {
			break
		}
		if !publicOnly || manet.IsPublicAddr(a) {
			info.Addrs = append(info.Addrs, a)
		}
	}
	return info
}

// isOutside reports whether a peer that is connected from addr may be in none of the networks of
// this node: it comes from a public address, or over a relay and so from anywhere.
func isOutside(addr ma.Multiaddr) bool {
	_, err := addr.ValueForProtocol(ma.P_CIRCUIT)
	return err == nil || manet.IsPublicAddr(addr)
}
