package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/gateway/api"
	"allium/internal/ipgroup"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

// Verdict says what became of a dial, in a word.
type Verdict string

// The verdicts.
const (
	Reached      Verdict = "reached"         // directly
	RelayOnly    Verdict = "relay_only"      // through a relay alone
	Itself       Verdict = "itself"          // the peer is this node
	Offline      Verdict = "offline"         // this node reaches nobody
	DeniedHere   Verdict = "denied_here"     // listen.deny or listen.allow of this node
	DeniedThere  Verdict = "denied_there"    // the peer refuses this node
	OtherPeer    Verdict = "other_peer"      // another peer answers at the address
	OtherNetwork Verdict = "private_network" // the keys of private networks differ
	Protocol     Verdict = "protocol"        // something answers that speaks another protocol
	WrongClock   Verdict = "clock"           // a certificate is not valid by one of the clocks
	AtLimit      Verdict = "at_limit"        // the peer has no place for another connection
	Refused      Verdict = "refused"         // the port is closed
	Private      Verdict = "private_address" // the address is good in another network alone
	NoRoute      Verdict = "no_route"        // this machine has no way to the address, such as no IPv6
	Silent       Verdict = "silent"          // nothing answers: a firewall, a router, or nobody
	NoAddress    Verdict = "no_address"      // no address of the peer is known
	BadAddress   Verdict = "bad_address"     // it is no address of a peer
	Unknown      Verdict = "unknown"         // for another reason, which the evidence has
)

// telling orders the verdicts by how much they explain: of several addresses the first in this list counts.
var telling = []Verdict{
	Reached, RelayOnly, Itself, Offline, DeniedHere, OtherNetwork, DeniedThere, WrongClock, OtherPeer, AtLimit,
	Protocol, Refused, Silent, NoRoute, Private, BadAddress, NoAddress, Unknown,
}

// advice explains a verdict: the side of the fault, its meaning, and a remedy.
type advice struct{ side, means, fix string }

// The sides.
const (
	sideNone    = "none"
	sideHere    = "here"
	sideThere   = "there"
	sideBetween = "between"
)

var advices = map[Verdict]advice{
	Reached: {sideNone, "this node reaches the peer directly", "nothing"},
	RelayOnly: {sideBetween, "only a relay leads to the peer, and a relay carries little",
		"open or forward a port on either side; `allium doctor reach` says which"},
	Itself:  {sideHere, "the peer is this node", "name another peer"},
	Offline: {sideHere, "this node reaches nobody", "connect this machine to the network; `allium doctor` says more"},
	DeniedHere: {sideHere, "this node does not let the peer connect",
		"remove it from the files of listen.deny, or add it to those of listen.allow"},
	DeniedThere: {sideThere, "the peer refuses this node", "ask its operator to let this node connect (listen.allow)"},
	OtherPeer: {sideThere, "another peer answers at the address",
		"ask for the current address; if the peer has a new identity, for its new id (`allium id`)"},
	OtherNetwork: {sideBetween, "the two nodes are in different private networks",
		"give both the same swarm key (node.swarm_key); `allium swarm-key show` on each compares them"},
	Protocol: {sideThere, "something answers that is no node, or no node of this network",
		"check the port: it may be that of the gateway; in a private network compare `allium swarm-key show`"},
	WrongClock: {sideBetween, "a certificate is not valid by one of the two clocks", "set the clocks of both machines"},
	AtLimit: {sideThere, "the peer has no place for another connection",
		"try later, or ask its operator for a higher limit"},
	Refused: {sideThere, "the peer's machine answers that the port is closed",
		"start the node there, and check the port; behind a router, forward the port to the right machine"},
	Silent: {sideBetween, "nothing answers at the address",
		"open the port (TCP and UDP) in the firewall of the peer's machine and forward it in its router, and check " +
			"that the machine is on"},
	NoRoute: {sideHere, "this machine has no way to the address",
		"use an address that this machine can reach: without IPv6 here that is one of IPv4"},
	Private: {sideThere, "the address is good only inside the peer's own network",
		"be in the same network, or have the peer announce a public address: `allium doctor reach` there says how"},
	BadAddress: {sideHere, "this is no address of a peer", "write /ip4/ADDRESS/tcp/PORT/p2p/ID"},
	NoAddress: {sideBetween, "no address of the peer is known here",
		"write an address, as `allium id` prints there, or a ticket of it"},
	Unknown: {sideBetween, "the peer was not reached", "see the evidence, and the log of both nodes"},
}

// Diagnosis says what is in the way to a peer.
type Diagnosis struct {
	Peer     string   `json:"peer"`
	Verdict  Verdict  `json:"verdict"`
	Side     string   `json:"side"` // where the fault is: "here", "there", "between" or "none"
	Evidence string   `json:"evidence"`
	Fix      string   `json:"fix"`
	Addrs    []Dialed `json:"addrs"`
}

// Dialed is the result of dialing one address.
type Dialed struct {
	Addr     string  `json:"addr"`
	Verdict  Verdict `json:"verdict"`
	Evidence string  `json:"evidence"`
}

// Good reports whether the peer was reached.
func (d Diagnosis) Good() bool { return d.Verdict == Reached }

// Who is the peer of a diagnosis.
type Who struct {
	ID      string   // its peer id
	Addrs   []string // multiaddrs that end with /p2p/ID; empty: the node uses those that it knows
	Network string   // fingerprint of its private network, if a ticket told it
	Ticket  bool     // Network is known
}

// ParseWho understands a peer id, a multiaddr that ends with /p2p/ID, and a ticket.
func ParseWho(text string) (Who, error) {
	if ticket.Is(text) {
		t, err := ticket.Parse(text)
		if err != nil {
			return Who{}, err
		}
		who := Who{ID: t.Peer.String(), Network: t.Network.Text(), Ticket: true}
		for _, addr := range t.Addrs {
			who.Addrs = append(who.Addrs, addr.String()+"/p2p/"+who.ID)
		}
		if t.Relay != nil {
			who.Addrs = append(who.Addrs, t.Relay.String()+"/p2p/"+who.ID)
		}
		return who, nil
	}
	if info, err := peer.AddrInfoFromString(text); err == nil {
		return Who{ID: info.ID.String(), Addrs: []string{text}}, nil
	}
	id, err := peer.Decode(text)
	if err != nil {
		return Who{}, status.Errorf(status.BadRequest, "%q names no peer; write a peer id, "+
			"/ip4/ADDRESS/tcp/PORT/p2p/ID or a ticket", text)
	}
	return Who{ID: id.String()}, nil
}

// Dialer is a running node that dials.
type Dialer interface {
	ID(ctx context.Context) (api.ID, error)
	Peers(ctx context.Context) ([]api.Peer, error)
	Connect(ctx context.Context, addr string) (api.Peer, error)
	Ping(ctx context.Context, peer string) (api.Pong, error)
}

// The bounds of a diagnosis.
const (
	maxAddrs     = 16
	addrsAtOnce  = 4
	addrWait     = 12 * time.Second // for one address: the node itself gives up after two dials of 5 s
	diagnoseWait = 45 * time.Second
)

// Diagnose lets the node dial a peer at each address, and says what is in the way: on this side, on the other or
// between. own are the addresses of this machine. An error is one of the node's answers.
func Diagnose(ctx context.Context, n Dialer, who Who, own []netip.Prefix) (Diagnosis, error) {
	ctx, cancel := context.WithTimeout(ctx, diagnoseWait)
	defer cancel()
	self, err := n.ID(ctx)
	if err != nil {
		return Diagnosis{}, err
	}
	before, err := n.Peers(ctx)
	if err != nil {
		return Diagnosis{}, err
	}
	switch {
	case who.ID == self.ID:
		return diagnosis(who, Itself, "its id is that of this node", nil), nil
	case who.Ticket && who.Network != self.Network:
		return diagnosis(who, OtherNetwork, fmt.Sprintf("the ticket is for %s, and this node is in %s",
			networkName(who.Network), networkName(self.Network)), nil), nil
	}
	if path, addr := pathTo(before, who.ID); path != "" {
		return diagnosis(who, path, "there is a connection already, at "+addr, nil), nil
	}
	var all []Dialed
	if len(who.Addrs) == 0 {
		all = []Dialed{byID(ctx, n, who.ID)}
	} else {
		all = dialAll(ctx, n, who, own, self.Network != "")
	}
	best := all[0]
	for _, a := range all {
		if slices.Index(telling, a.Verdict) < slices.Index(telling, best.Verdict) {
			best = a
		}
	}
	after, err := n.Peers(ctx)
	if path, addr := pathTo(after, who.ID); path != "" && err == nil {
		return diagnosis(who, path, "connected at "+addr, all), nil
	}
	lost := best.Verdict == Silent || best.Verdict == NoRoute
	if lost && err == nil && len(after) == 0 && !slices.ContainsFunc(own, outside) {
		return diagnosis(who, Offline, "no peer is connected, and this machine has no address but loopback", all), nil
	}
	return diagnosis(who, best.Verdict, best.Evidence, all), nil
}

// outside reports whether an address leads beyond this machine.
func outside(p netip.Prefix) bool { return !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() }

func networkName(fingerprint string) string {
	if fingerprint == "" {
		return "the public network"
	}
	return "the private network " + fingerprint
}

func diagnosis(who Who, v Verdict, evidence string, all []Dialed) Diagnosis {
	a := advices[v]
	if all == nil || len(who.Addrs) == 0 {
		all = []Dialed{}
	}
	return Diagnosis{
		Peer: who.ID, Verdict: v, Side: a.side, Evidence: a.means + ": " + evidence, Fix: a.fix, Addrs: all,
	}
}

// pathTo returns whether some connections lead to a peer, directly or through a relay, and at which address.
func pathTo(peers []api.Peer, id string) (v Verdict, addr string) {
	for _, p := range peers {
		switch {
		case p.ID != id:
		case !strings.Contains(p.Addr, "/p2p-circuit"):
			return Reached, p.Addr
		default:
			v, addr = RelayOnly, p.Addr
		}
	}
	return v, addr
}

// byID lets the node look for the addresses of a peer itself.
func byID(ctx context.Context, n Dialer, id string) Dialed {
	ctx, cancel := context.WithTimeout(ctx, addrWait)
	defer cancel()
	if _, err := n.Ping(ctx, id); err != nil {
		v, why := Classify(err, nil, nil, false)
		if strings.Contains(err.Error(), "no addresses") {
			v = NoAddress
		}
		return Dialed{Verdict: v, Evidence: why}
	}
	return Dialed{Verdict: Reached, Evidence: "it answered a ping"}
}

// dialAll lets the node dial each address.
func dialAll(ctx context.Context, n Dialer, who Who, own []netip.Prefix, private bool) []Dialed {
	all := make([]Dialed, min(len(who.Addrs), maxAddrs))
	places := make(chan struct{}, addrsAtOnce) // bound: addresses at once
	var dials sync.WaitGroup
	for i := range all {
		dials.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, addrWait)
			defer cancel()
			all[i] = Dialed{Addr: who.Addrs[i], Verdict: Reached, Evidence: "connected"}
			a, err := ma.NewMultiaddr(who.Addrs[i])
			if err == nil {
				_, err = n.Connect(ctx, who.Addrs[i])
			}
			if err != nil {
				all[i].Verdict, all[i].Evidence = Classify(err, a, own, private)
			}
		})
	}
	dials.Wait()
	return all
}

// words are parts of the node's messages (node/p2p/reach and node/local) and what they mean, the most telling first.
var words = []struct {
	part    string
	verdict Verdict
}{
	{"answers there", OtherPeer},
	{"this node's operator does not let it connect", DeniedHere},
	{"refuses this node: its operator", DeniedThere},
	{"set the clocks of both", WrongClock},
	{"is at its limit", AtLimit},
	{"do not understand each other", Protocol},
	{"is this node itself", Itself},
	{"is not the address of a peer", BadAddress},
	{"connection refused", Refused},
	{"network is unreachable", NoRoute},
	{"no route to host", NoRoute},
	{"cannot assign requested address", NoRoute},
	{"no good addresses", NoRoute},
	{"no transport for protocol", BadAddress},
	{"no answer", Silent},
	{"timeout", Silent},
	{"deadline", Silent},
	{"closed the connection at once", DeniedThere},
}

// Classify says what an error of a dial means, at an address of the peer if that is known. own are the addresses of
// this machine, and private says that this node is in a private network.
func Classify(err error, at ma.Multiaddr, own []netip.Prefix, private bool) (Verdict, string) {
	why := Reason(err)
	v := Unknown
	for _, w := range words {
		if strings.Contains(err.Error(), w.part) {
			v = w.verdict
			break
		}
	}
	if v == Unknown && (errors.Is(err, context.DeadlineExceeded) || status.Of(err) == status.Timeout) {
		v, why = Silent, "no answer"
	}
	switch {
	case v == Protocol && private:
		v = OtherNetwork
	case (v == Silent || v == NoRoute) && at != nil && elsewherePrivate(at, own):
		v, why = Private, why+", and the address is in a network in which this machine is not"
	}
	return v, why
}

// elsewherePrivate reports whether an address is a private one outside the networks of this machine.
func elsewherePrivate(a ma.Multiaddr, own []netip.Prefix) bool {
	ip, ok := ipgroup.IP(a)
	if !ok || manet.IsPublicAddr(a) || ip.IsLoopback() {
		return false
	}
	return !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(ip) })
}
