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

// Deadlines of the calls that the library makes.
const (
	lookupTimeout = time.Minute // SPEC §2, a lookup to publish
	sendTimeout   = time.Minute // for one record to all its peers
)

var (
	errNoPeers = status.Errorf(status.NoBootstrap, "sweep: no peer is known")
	errNoAddrs = status.Errorf(status.TransportDown, "sweep: this node has no address others could use: check listen.addrs and listen.relays")
)

// within is ctx with a deadline that also ends with run: the library's own
// contexts do not.
func within(ctx, run context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(run, cancel)
	return ctx, func() { stop(); cancel() }
}

// router is the library's view of Deps.Router. The library takes the node for
// online when a lookup succeeds, and a region for done when there is no address
// to announce; so without a peer or an address a lookup fails here.
type router struct {
	run   context.Context
	self  peer.ID
	k     int
	addrs func() []ma.Multiaddr
	next  Router
	saw   func([]peer.ID) // what a lookup has found
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

// sender takes the library's ADD_PROVIDER messages to the placer. Neither the
// peer nor the addresses of a message are used: see placer, and our record has
// addresses of its own.
type sender struct{ to *placer }

// SendMessage implements pb.MessageSender.
func (s sender) SendMessage(ctx context.Context, _ peer.ID, msg *pb.Message) error {
	if msg.GetType() != pb.Message_ADD_PROVIDER {
		return status.Errorf(status.Internal, "sweep: a message of type %s", msg.GetType())
	}
	root, err := b3.FromMultihash(msg.GetKey())
	if err != nil {
		return err
	}
	ctx, end := within(ctx, s.to.run, sendTimeout)
	defer end()
	return s.to.publish(ctx, root)
}

// SendRequest implements pb.MessageSender. The sweep asks nothing.
func (s sender) SendRequest(_ context.Context, _ peer.ID, msg *pb.Message) (*pb.Message, error) {
	return nil, status.Errorf(status.Internal, "sweep: a request of type %s", msg.GetType())
}
