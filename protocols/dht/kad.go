package dht

import (
	"bytes"
	"context"
	"slices"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/dht/allowance"
	"allium/protocols/dht/kadhost"
	"allium/protocols/dht/messages"
	"allium/protocols/status"
)

// kadServer answers the protocol of kad-dht with the table and the records of this package.
type kadServer struct {
	near  *neighbours
	guard *allowance.Guard
	walk  *walker
	m     *metrics
}

// newKad starts kad-dht, which answers by what the service has.
func (s *Service) newKad() (*kaddht.IpfsDHT, error) { return s.kad.start() }

// start starts kad-dht without its provider and value stores. The provider exchange
// (OAP1 §11) and GET_PROVIDERS use the records of this package, and a value store would
// be unbounded.
func (s *kadServer) start() (*kaddht.IpfsDHT, error) {
	mode := kaddht.ModeAutoServer // in a network without public addresses every node must be a server
	if s.near.cfg.Load().Server {
		mode = kaddht.ModeServer
	} else if !listens(s.near.host) {
		mode = kaddht.ModeClient // nobody could ask it
	}
	h := kadhost.Host(s.guard.Host(s.near.host, KadID, messages.MaxMessage), KadID, messages.MaxMessage, s.answer)
	return kaddht.New(h,
		kaddht.ProtocolPrefix(Prefix),
		kaddht.Mode(mode),
		kaddht.BucketSize(s.near.cfg.Load().K),
		kaddht.RoutingTablePeerDiversityFilter(
			kadhost.NewGroupFilter(s.near.cfg.Load().routingConfig().GroupCap(), s.near.addrs)),
		kaddht.DisableProviders(),
		kaddht.DisableValues(),
		kaddht.WithCustomMessageSender(func(host.Host, []protocol.ID) pb.MessageSenderWithDisconnect {
			return s.walk.sender
		}),
	)
}

// listens reports whether a host accepts connections itself, and not through a relay alone.
func listens(h host.Host) bool {
	return slices.ContainsFunc(h.Network().ListenAddresses(), func(a ma.Multiaddr) bool {
		_, err := a.ValueForProtocol(ma.P_CIRCUIT)
		return err != nil
	})
}

// answer answers a query of kad-dht's protocol for peers or providers.
func (s *kadServer) answer(from network.Conn, q *pb.Message) *pb.Message {
	if q.GetType() == pb.Message_FIND_NODE {
		return s.peers(from, q)
	}
	return s.providersOf(from, q)
}

// peers answers a FIND_NODE as kad-dht does, which would tell everybody each address that
// it knows: the peer that the key names, if this node knows it, and the closest peers of
// kad-dht's table.
func (s *kadServer) peers(from network.Conn, q *pb.Message) *pb.Message {
	s.m.served.WithLabelValues("kad_find_node", status.OK.String()).Inc()
	answer := pb.NewMessage(pb.Message_FIND_NODE, nil, q.GetClusterLevel())
	r := s.walk.lookups.current()
	if r == nil {
		return answer
	}
	named := peer.ID(q.GetKey())
	near := r.kad.RoutingTable().NearestPeers(kb.ConvertKey(string(q.GetKey())), s.near.cfg.Load().K+1)
	near = slices.DeleteFunc(near, func(p peer.ID) bool { return p == named })
	infos := s.near.tell(append([]peer.ID{named}, near...), from)
	answer.CloserPeers = pb.PeerInfosToPBPeers(s.near.host.Network(), infos)
	return answer
}

// providersOf answers a GET_PROVIDERS from the verified records that the provider
// exchange uses, so that ordinary libp2p tools find providers. The response also names the
// closest known peers. A key that is not the address of an object has no providers.
func (s *kadServer) providersOf(from network.Conn, q *pb.Message) *pb.Message {
	answer := pb.NewMessage(pb.Message_GET_PROVIDERS, q.GetKey(), q.GetClusterLevel())
	answer.CloserPeers = pb.RawPeerInfosToPBPeers(s.near.nearest(q.GetKey(), from))
	s.m.served.WithLabelValues("kad_get_providers", status.OK.String()).Inc()
	r := s.walk.lookups.current()
	root, err := b3.FromMultihash(q.GetKey())
	if r == nil || err != nil || !bytes.Equal(root.Multihash(), q.GetKey()) {
		return answer
	}
	ctx, cancel := context.WithTimeout(r.ctx, serveTimeout)
	defer cancel()
	var providers []peer.AddrInfo
	for _, rec := range r.server.records(ctx, root) {
		providers = append(providers, peer.AddrInfo{ID: rec.Provider, Addrs: rec.Addrs.Addrs})
	}
	answer.ProviderPeers = pb.RawPeerInfosToPBPeers(providers)
	return answer
}
