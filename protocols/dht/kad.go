package dht

import (
	"bytes"
	"context"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/b3"
	"allium/protocols/dht/kadhost"
	"allium/protocols/status"
)

// newKad starts kad-dht without its provider and value stores. The provider exchange
// (OAP1 §11) and GET_PROVIDERS use the records of this package, and a value store would
// be unbounded.
func (s *Service) newKad() (*kaddht.IpfsDHT, error) {
	mode := kaddht.ModeAutoServer // in a network without public addresses every node must be a server
	if s.cfg.Server {
		mode = kaddht.ModeServer
	} else if !listens(s.deps.Host) {
		mode = kaddht.ModeClient // nobody could ask it
	}
	h := kadhost.Host(s.guard.Host(s.deps.Host, KadID, maxMessage), KadID, maxMessage, s.kadProviders)
	return kaddht.New(h,
		kaddht.ProtocolPrefix(Prefix),
		kaddht.Mode(mode),
		kaddht.BucketSize(s.cfg.K),
		kaddht.RoutingTablePeerDiversityFilter(kadhost.NewGroupFilter(s.cfg.routingConfig().GroupCap(), s.addrs)),
		kaddht.DisableProviders(),
		kaddht.DisableValues(),
		kaddht.WithCustomMessageSender(func(host.Host, []protocol.ID) pb.MessageSenderWithDisconnect {
			return s.kadSender
		}),
	)
}

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
