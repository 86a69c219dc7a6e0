package dht

import (
	"bytes"
	"context"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// kadProviders answers a GET_PROVIDERS of kad-dht's protocol from the verified
// records that the provider exchange uses, so that ordinary libp2p tools find
// providers. The response also names the closest known peers. A key that is not the
// address of an object has no providers.
func (s *Service) kadProviders(from peer.ID, q *pb.Message) *pb.Message {
	answer := pb.NewMessage(pb.Message_GET_PROVIDERS, q.GetKey(), q.GetClusterLevel())
	answer.CloserPeers = pb.RawPeerInfosToPBPeers(s.nearest(q.GetKey(), from))
	s.m.served.WithLabelValues("kad_get_providers", status.OK.String()).Inc()
	s.mu.Lock()
	r := s.running
	s.mu.Unlock()
	root, err := b3.FromMultihash(q.GetKey())
	if r == nil || err != nil || !bytes.Equal(root.Multihash(), q.GetKey()) {
		return answer
	}
	ctx, cancel := context.WithTimeout(r.ctx, serveTimeout)
	defer cancel()
	var providers []peer.AddrInfo
	for _, rec := range r.server.records(ctx, root) {
		providers = append(providers, peer.AddrInfo{ID: rec.Provider, Addrs: rec.addrs.Addrs})
	}
	answer.ProviderPeers = pb.RawPeerInfosToPBPeers(providers)
	return answer
}
