package sweep

import (
	"context"
	"slices"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Timeouts of the calls that the library makes.
const (
	lookupTimeout = time.Minute // of a lookup (SPEC §2)
	sendTimeout   = time.Minute // of sending one record to all its peers
)

var (
	errNoPeers = status.Errorf(status.NoBootstrap, "no peer is known")
	errNoAddrs = status.Errorf(status.TransportDown,
		"this node has no address that others can use: check listen.addrs and listen.relays")
)

// within returns ctx with a deadline. It also ends with run, because the library's own contexts
// do not.
func within(ctx, run context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(run, cancel)
	return ctx, func() { stop(); cancel() }
}

// router is the Router that the library uses. The library considers the node online when a
// lookup succeeds, and a region done when there is no address to announce. A lookup therefore
// fails here without a peer or without an address.
type router struct {
	run   context.Context
	self  peer.ID
	k     int
	addrs func() []ma.Multiaddr
	next  Router
	saw   func([]peer.ID) // called with the peers that a lookup found
}

// GetClosestPeers implements provider.KadClosestPeersRouter.
func (r *router) GetClosestPeers(ctx context.Context, key string) ([]peer.ID, error) {
	if len(r.addrs()) == 0 {
		return nil, errNoAddrs
	}
	ctx, end := within(ctx, r.run, lookupTimeout)
	defer end()
	peers, err := r.next.GetClosestPeers(ctx, key)
	if err != nil {
		return nil, err
	}
	peers = slices.DeleteFunc(slices.Clone(peers), func(p peer.ID) bool { return p == r.self })
	if len(peers) == 0 {
		return nil, errNoPeers
	}
	peers = peers[:min(len(peers), r.k)]
	r.saw(peers)
	return peers, nil
}

// sender passes the keys of the library's ADD_PROVIDER messages to the placer. It ignores the
// peer, which the placer chooses, and the addresses, because a signed record has its own.
type sender struct{ to *placer }

// SendMessage implements pb.MessageSender.
func (s sender) SendMessage(ctx context.Context, _ peer.ID, msg *pb.Message) error {
	if msg.GetType() != pb.Message_ADD_PROVIDER {
		return status.Errorf(status.Internal, "unexpected message of type %s", msg.GetType())
	}
	root, err := b3.FromMultihash(msg.GetKey())
	if err != nil {
		return err
	}
	ctx, end := within(ctx, s.to.run, sendTimeout)
	defer end()
	return s.to.publish(ctx, root)
}

// SendRequest implements pb.MessageSender. The sweep sends no requests.
func (s sender) SendRequest(_ context.Context, _ peer.ID, msg *pb.Message) (*pb.Message, error) {
	return nil, status.Errorf(status.Internal, "unexpected request of type %s", msg.GetType())
}
