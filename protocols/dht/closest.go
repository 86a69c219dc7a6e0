package dht

import (
	"context"
	"fmt"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/protocols/dht/messages"
	"allium/protocols/kad"
)

// closest returns up to k live peers closest to key, nearest first, and the result of the
// lookup.
func (s *Service) closest(
	ctx context.Context, op string, cfg kad.Config, key []byte,
) ([]peer.ID, kad.Result[peer.ID], error) {
	r, ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, kad.Result[peer.ID]{}, err
	}
	defer end()
	ask := func(ctx context.Context, p peer.ID) (answer, error) {
		closer, err := s.findNode(ctx, p, key)
		return answer{closer: closer}, err
	}
	res, err := r.engine.run(ctx, search{op: op, key: key, cfg: cfg, ask: ask})
	if err != nil {
		return nil, res, err
	}
	ids := make([]peer.ID, len(res.Closest))
	for i, c := range res.Closest {
		ids[i] = c.ID
	}
	return ids, res, nil
}

// GetClosestPeers returns up to k live peers closest to key, nearest first. It is the
// router of the republish sweep, and does not hedge: records need all of the k closest.
func (s *Service) GetClosestPeers(ctx context.Context, key string) ([]peer.ID, error) {
	ids, _, err := s.closest(ctx, opSweep, s.cfg.Load().publishConfig(), []byte(key))
	return ids, err
}

// findNode asks p for the peers that it knows closest to key.
func (s *Service) findNode(ctx context.Context, p peer.ID, key []byte) ([]peer.AddrInfo, error) {
	m, err := s.kadSender.SendRequest(ctx, p, pb.NewMessage(pb.Message_FIND_NODE, key, 0))
	if err != nil {
		return nil, fmt.Errorf("ask for closer peers: %w", err)
	}
	near := m.GetCloserPeers()
	near = near[:min(len(near), messages.MaxCloser+1)] // the target, and the closest
	infos := make([]peer.AddrInfo, 0, len(near))
	for _, info := range pb.PBPeersToPeerInfos(near) {
		if id, err := messages.ParsePeerID([]byte(info.ID)); err == nil {
			addrs := info.Addrs[:min(len(info.Addrs), 2*messages.MaxCloserAddrs)]
			infos = append(infos, peer.AddrInfo{ID: id, Addrs: addrs})
		}
	}
	return infos, nil
}

// nearest returns the closer peers for the response to a request: up to k peers of the
// table nearest to key, without the asking peer, with the addresses that it may be told.
func (s *Service) nearest(key []byte, asking network.Conn) []peer.AddrInfo {
	var near []peer.ID
	for _, p := range s.table.Nearest(kad.Hash(key), s.cfg.Load().K+1) {
		near = append(near, p.ID)
	}
	return s.tell(near, asking)
}

// tell returns up to k of the peers without the asking one, with the addresses that it may be
// told. Peers without any are left out.
func (s *Service) tell(near []peer.ID, asking network.Conn) []peer.AddrInfo {
	infos := make([]peer.AddrInfo, 0, len(near))
	for _, p := range near {
		if p == asking.RemotePeer() || len(infos) == s.cfg.Load().K {
			continue
		}
		if info := s.told(p, asking); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	return infos
}

// told returns up to messages.MaxCloserAddrs addresses of p that the asking peer may be told: none of an
// ignored peer, and only public ones where the asker is outside of the networks of this node.
// A private address is of no use there and shows how somebody's network is built.
func (s *Service) told(p peer.ID, asking network.Conn) peer.AddrInfo {
	info := peer.AddrInfo{ID: p}
	if s.deps.IgnorePeer(p) {
		return info
	}
	publicOnly := !s.deps.PrivateNetwork && isOutside(asking.RemoteMultiaddr())
	for _, a := range s.deps.Host.Peerstore().Addrs(p) {
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
