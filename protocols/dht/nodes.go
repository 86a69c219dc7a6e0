package dht

import (
	"context"
	"fmt"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/kad"
)

// closest returns up to k live peers closest to key, nearest first, and what
// the lookup came to.
func (s *Service) closest(ctx context.Context, op string, cfg kad.Config, key []byte) ([]peer.ID, kad.Result[peer.ID], error) {
	r, ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, kad.Result[peer.ID]{}, err
	}
	defer end()
	res, err := r.engine.run(ctx, search{op: op, key: key, cfg: cfg, ask: func(ctx context.Context, p peer.ID) (answer, error) {
		closer, err := s.findNode(ctx, p, key)
		return answer{closer: closer}, err
	}})
	if err != nil {
		return nil, res, err
	}
	ids := make([]peer.ID, len(res.Closest))
	for i, c := range res.Closest {
		ids[i] = c.ID
	}
	return ids, res, nil
}

// GetClosestPeers is the router of the republish sweep: up to k live peers
// closest to key, nearest first. It is patient: records need all of the k closest.
func (s *Service) GetClosestPeers(ctx context.Context, key string) ([]peer.ID, error) {
	ids, _, err := s.closest(ctx, opSweep, s.cfg.publish(), []byte(key))
	return ids, err
}

// findNode asks p for the peers it knows closest to key.
func (s *Service) findNode(ctx context.Context, p peer.ID, key []byte) ([]peer.AddrInfo, error) {
	m, err := s.kadSender.SendRequest(ctx, p, pb.NewMessage(pb.Message_FIND_NODE, key, 0))
	if err != nil {
		return nil, fmt.Errorf("dht: find node: %w", err)
	}
	near := m.GetCloserPeers()
	infos := make([]peer.AddrInfo, 0, min(len(near), maxCloser))
	for _, info := range pb.PBPeersToPeerInfos(near[:min(len(near), maxCloser)]) {
		if id, err := peerID([]byte(info.ID)); err == nil {
			infos = append(infos, peer.AddrInfo{ID: id, Addrs: info.Addrs[:min(len(info.Addrs), 2*maxCloserAddrs)]})
		}
	}
	return infos, nil
}

// nearest is what a get is told of closer peers: the k closest to the key that
// are in the table, but for who asks.
func (s *Service) nearest(key []byte, asking peer.ID) []peer.AddrInfo {
	near := s.table.Nearest(kad.Hash(key), s.cfg.K+1)
	infos := make([]peer.AddrInfo, 0, len(near))
	for _, p := range near {
		if p.ID == asking || len(infos) == s.cfg.K {
			continue
		}
		if info := s.deps.Host.Peerstore().PeerInfo(p.ID); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	return infos
}
