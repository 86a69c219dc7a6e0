package dht

import (
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"
)

// rememberAddrs stores the addresses of a peer in the peerstore for a dial that follows.
func (s *Service) rememberAddrs(info peer.AddrInfo) {
	if len(info.Addrs) > 0 && !s.isConnected(info.ID) {
		s.deps.Host.Peerstore().AddAddrs(info.ID, info.Addrs, peerstore.TempAddrTTL)
	}
}

func (s *Service) isConnected(p peer.ID) bool {
	return s.deps.Host.Network().Connectedness(p) == network.Connected
}

// connected returns up to k connected peers that speak the provider exchange.
func (s *Service) connected() []peer.ID {
	var peers []peer.ID
	store := s.deps.Host.Peerstore()
	for _, p := range s.deps.Host.Network().Peers() {
		got, err := store.SupportsProtocols(p, ProviderID)
		if err == nil && len(got) > 0 && len(peers) < s.cfg.Load().K {
			peers = append(peers, p)
		}
	}
	return peers
}

// addrs returns the remote addresses of p's connections, or else its known addresses.
func (s *Service) addrs(p peer.ID) []ma.Multiaddr {
	conns := s.deps.Host.Network().ConnsToPeer(p)
	if len(conns) == 0 {
		return s.deps.Host.Peerstore().Addrs(p)
	}
	addrs := make([]ma.Multiaddr, len(conns))
	for i, c := range conns {
		addrs[i] = c.RemoteMultiaddr()
	}
	return addrs
}
