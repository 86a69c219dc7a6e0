package api

import (
	"context"

	"allium/protocols/capability"
)

// Network tells of the connections of a node, and makes them.
type Network interface {
	// ID returns the node's peer id and the addresses where it listens.
	ID(ctx context.Context) (ID, error)
	// Peers lists the connections.
	Peers(ctx context.Context) ([]Peer, error)
	// Reach says from where the node can be dialled, and what its operator can do about it.
	Reach(ctx context.Context) (Reach, error)
	// Seeds lists the seeds and says what is known of the network without them.
	Seeds(ctx context.Context) (Seeds, error)
	// Connect dials a peer's multiaddr (with /p2p/…).
	Connect(ctx context.Context, addr string) (Peer, error)
	// Disconnect closes every connection to a peer, given by its id.
	Disconnect(ctx context.Context, peer string) error
	// Ping measures one round trip to a peer, given by id or multiaddr.
	Ping(ctx context.Context, peer string) (Pong, error)
	// AskPeer asks a peer, a peer ID or a multiaddr with /p2p/ID, how much it has of the object that key
	// names. What it says is a claim. AskPeer takes at most 5 s.
	AskPeer(ctx context.Context, peer, key string) (PeerHas, error)
}

var peerVerbs = []*Verb{
	verbID.Verb, verbPeers.Verb, verbReach.Verb, verbSeeds.Verb, verbConnect.Verb, verbDisconnect.Verb, verbPing.Verb,
	verbAskPeer.Verb,
}

type connectRequest struct {
	Addr string `query:"addr,required" doc:"a multiaddr with /p2p/ID"`
}

type disconnectRequest struct {
	Peer string `query:"peer,required" doc:"a peer's id"`
}

type pingRequest struct {
	Peer string `query:"peer,required" doc:"a peer's id or multiaddr"`
}

type askPeerRequest struct {
	keyRequest
	Peer string `query:"peer" doc:"a peer ID, or a multiaddr with /p2p/ID"`
}

var (
	verbID = value(Spec{
		ID: "ID", Path: "id", Doc: "Returns the node's peer id and its addresses.", Answer: "the node",
	}, plain(Node.ID))
	verbPeers = value(Spec{
		ID: "Peers", Path: "peers", Doc: "Lists the connections to peers.", Answer: "the connections",
	}, plain(Node.Peers))
	verbReach = value(Spec{
		ID: "Reach", Path: "reach",
		Doc:    "Says from where the node can be dialled, address by address, and what to do about it.",
		Answer: "what is known of the addresses",
	}, plain(Node.Reach))
	verbSeeds = value(Spec{
		ID: "Seeds", Path: "seeds",
		Doc: "Lists the seeds, the seed manifest, and how many peers the node remembers.", Answer: "the seeds",
	}, plain(Node.Seeds))
	verbConnect = value(Spec{
		ID: "Connect", Path: "connect", Op: capability.Connect, Doc: "Dials a peer.", Answer: "the connection",
	}, func(n Node, ctx context.Context, r connectRequest) (Peer, error) { return n.Connect(ctx, r.Addr) })
	verbDisconnect = value(Spec{
		ID: "Disconnect", Path: "disconnect", Op: capability.Connect,
		Doc: "Closes every connection to a peer.", Answer: "done",
	}, func(n Node, ctx context.Context, r disconnectRequest) (none, error) {
		return none{}, n.Disconnect(ctx, r.Peer)
	})
	verbPing = value(Spec{
		ID: "Ping", Path: "ping", Op: capability.Connect,
		Doc: "Measures one round trip to a peer.", Answer: "the round trip",
	}, func(n Node, ctx context.Context, r pingRequest) (Pong, error) { return n.Ping(ctx, r.Peer) })
	verbAskPeer = value(Spec{
		ID: "AskPeer", Path: "ask", Op: capability.Connect,
		Doc: "Asks a peer how much it has of an object, and dials it if need be.", Answer: "what it says",
	}, func(n Node, ctx context.Context, r askPeerRequest) (PeerHas, error) {
		return n.AskPeer(ctx, r.Peer, r.Key)
	})
)

// ID implements Network.
func (r remoteNetwork) ID(ctx context.Context) (ID, error) { return verbID.send(ctx, r.caller, none{}) }

// Peers implements Network.
func (r remoteNetwork) Peers(ctx context.Context) ([]Peer, error) {
	return verbPeers.send(ctx, r.caller, none{})
}

// Reach implements Network.
func (r remoteNetwork) Reach(ctx context.Context) (Reach, error) {
	return verbReach.send(ctx, r.caller, none{})
}

// Seeds implements Network.
func (r remoteNetwork) Seeds(ctx context.Context) (Seeds, error) {
	return verbSeeds.send(ctx, r.caller, none{})
}

// Connect implements Network.
func (r remoteNetwork) Connect(ctx context.Context, addr string) (Peer, error) {
	return verbConnect.send(ctx, r.caller, connectRequest{addr})
}

// Disconnect implements Network.
func (r remoteNetwork) Disconnect(ctx context.Context, peer string) error {
	return verbDisconnect.do(ctx, r.caller, disconnectRequest{peer})
}

// Ping implements Network.
func (r remoteNetwork) Ping(ctx context.Context, peer string) (Pong, error) {
	return verbPing.send(ctx, r.caller, pingRequest{peer})
}

// AskPeer implements Network.
func (r remoteNetwork) AskPeer(ctx context.Context, peer, key string) (PeerHas, error) {
	return verbAskPeer.send(ctx, r.caller, askPeerRequest{keyRequest{key}, peer})
}

// Reach says from where a node can be dialled.
type Reach struct {
	From ReachFrom `json:"from"`
	// at which this node listens or is announced, and those that peers found unreachable
	Addrs []ReachAddr `json:"addrs"`

	Peers      int `json:"peers"`      // connected peers
	Confirmers int `json:"confirmers"` // connected peers that dial addresses of others on request (AutoNAT v2)

	NAT ReachNAT `json:"nat"` // how the router maps this node's ports
	// Relays is whether this node relays for others now (listen.relay_service).
	Relays bool `json:"relays"`

	Advice []string `json:"advice"` // what the operator can do, a sentence each; empty: nothing needs to be done
}

// ReachNAT is the type of the router's NAT for each transport: "endpoint_independent" (holes can be punched),
// "endpoint_dependent" (mostly not) or "unknown".
type ReachNAT struct {
	UDP string `json:"udp"`
	TCP string `json:"tcp"`
}

// ReachFrom is from where a node can be dialled, in a word.
type ReachFrom string

// The values of ReachFrom, the farthest first.
const (
	ReachAnyone      ReachFrom = "anyone"      // a peer has confirmed an address on the Internet
	ReachUnconfirmed ReachFrom = "unconfirmed" // there are addresses on the Internet, and no peer has confirmed one
	ReachRelay       ReachFrom = "relay"       // through a relay alone
	ReachLAN         ReachFrom = "lan"         // from local networks
	ReachMachine     ReachFrom = "machine"     // from the same machine
	ReachNobody      ReachFrom = "nobody"      // it does not listen
)

// ReachAddr is an address of a node, and what is known of it.
type ReachAddr struct {
	Addr string `json:"addr"`
	// Scope is the widest group that could dial the address if nothing stood between: "anyone", "lan" or "machine".
	Scope ReachFrom `json:"scope"`
	// Via is the source of the address: "interface" of this machine, "router" (a port mapping),
	// "outside" (peers saw it), "config" (listen.announce), or "relay".
	Via   string     `json:"via"`
	State ReachState `json:"state"`
	// Announced is whether peers are told the address.
	Announced bool `json:"announced"`
	// By has the ids of connected peers that dialled this node that way within the last hour.
	By []string `json:"by,omitempty"`
}

// ReachState says what peers found of an address.
type ReachState string

// The states of an address.
const (
	ReachConfirmed   ReachState = "confirmed"   // a peer has dialled it
	ReachUnreachable ReachState = "unreachable" // peers tried to dial it and did not get through
	ReachUnknown     ReachState = "unknown"     // no peer has said
	ReachUnchecked   ReachState = "unchecked"   // nobody is asked: it is local, or a relay's
)
