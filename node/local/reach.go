package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/node/p2p/reach"
	"allium/protocols/ticket"
)

// dialOnRequest is the protocol of peers that dial addresses of others on request (AutoNAT v2).
const dialOnRequest protocol.ID = "/libp2p/autonat/2/dial-request"

// Reach implements api.Node.
func (a *Node) Reach(context.Context) (api.Reach, error) {
	h := a.deps.Host
	known := reachKnown{addrs: reach.Addrs(h), announced: h.Addrs(), peers: len(h.Network().Peers())}
	if r := a.deps.Reach; r != nil {
		known.status, known.by = r.Status(), r.Confirmers
	}
	if own, err := h.Network().InterfaceListenAddresses(); err == nil {
		known.own = own // else all but relayed ones count as from outside
	}
	if c, ok := h.(confirmer); ok {
		known.reachable, known.unreachable, _ = c.ConfirmedAddrs()
	}
	known.confirmers = confirmersOf(h)
	return known.report(), nil
}

// confirmersOf returns how many connected peers dial addresses of others on request.
func confirmersOf(h host.Host) (n int) {
	for _, p := range h.Network().Peers() {
		if some, err := h.Peerstore().SupportsProtocols(p, dialOnRequest); err == nil && len(some) > 0 {
			n++
		}
	}
	return n
}

// reachKnown holds the facts that the host knows of its addresses.
type reachKnown struct {
	addrs       []ma.Multiaddr // at which the node listens or is announced
	announced   []ma.Multiaddr // that peers are told
	own         []ma.Multiaddr // of this machine's interfaces
	reachable   []ma.Multiaddr // that peers have dialled
	unreachable []ma.Multiaddr // that peers failed to dial
	peers       int
	confirmers  int
	status      reach.Status
	by          func(ma.Multiaddr) []peer.ID // the peers that dialled an address; nil: unknown
}

// via returns where the node has an address from.
func (k reachKnown) via(a ma.Multiaddr) string {
	switch {
	case isRelayed(a):
		return "relay"
	case slices.ContainsFunc(k.own, a.Equal):
		return "interface"
	case slices.ContainsFunc(k.status.Announce, a.Equal):
		return "config"
	case slices.ContainsFunc(k.status.Mapped, a.Equal):
		return "router"
	}
	return "outside"
}

// confirmedBy returns the ids of the peers that dialled an address.
func (k reachKnown) confirmedBy(a ma.Multiaddr) (ids []string) {
	if k.by == nil {
		return nil
	}
	for _, id := range k.by(a) {
		ids = append(ids, id.String())
	}
	return ids
}

// scopes are the words for what a ticket calls reach.
var scopes = map[ticket.Reach]api.ReachFrom{
	ticket.Anywhere: api.ReachAnyone, ticket.LAN: api.ReachLAN, ticket.Machine: api.ReachMachine,
}

// farness orders ReachFrom, the nearest first.
var farness = []api.ReachFrom{
	api.ReachNobody, api.ReachMachine, api.ReachLAN, api.ReachRelay, api.ReachUnconfirmed, api.ReachAnyone,
}

// report says from where the node can be dialled, and what to do so that more can.
func (k reachKnown) report() api.Reach {
	r := api.Reach{
		From: api.ReachNobody, Addrs: []api.ReachAddr{}, Peers: k.peers, Confirmers: k.confirmers, Advice: []string{},
		Relays: k.status.Serving,
		NAT:    api.ReachNAT{UDP: cmp.Or(k.status.UDP, "unknown"), TCP: cmp.Or(k.status.TCP, "unknown")},
	}
	all := slices.Clone(k.addrs)
	for _, a := range slices.Concat(k.reachable, k.unreachable) {
		if !slices.ContainsFunc(all, a.Equal) {
			all = append(all, a)
		}
	}
	var shut []ma.Multiaddr // on the Internet, and peers do not get through
	for _, a := range all {
		reach, _ := ticket.ReachOf(a)
		scope := scopes[reach]
		if scope == "" {
			scope = api.ReachAnyone // a DNS name, as /dns4/…/tcp/443/wss
		}
		v := api.ReachAddr{
			Addr: a.String(), Scope: scope, Via: k.via(a), State: api.ReachUnchecked,
			Announced: slices.ContainsFunc(k.announced, a.Equal),
		}
		from := scope
		if v.Via == "relay" && scope == api.ReachAnyone {
			from = api.ReachRelay
		}
		if v.Via != "relay" && scope == api.ReachAnyone {
			switch {
			case slices.ContainsFunc(k.reachable, a.Equal):
				v.State, v.By = api.ReachConfirmed, k.confirmedBy(a)
			case slices.ContainsFunc(k.unreachable, a.Equal):
				v.State, from = api.ReachUnreachable, api.ReachNobody
				shut = append(shut, a)
			default:
				v.State, from = api.ReachUnknown, api.ReachUnconfirmed
			}
		}
		if slices.Index(farness, from) > slices.Index(farness, r.From) {
			r.From = from
		}
		r.Addrs = append(r.Addrs, v)
	}
	slices.SortStableFunc(r.Addrs, func(x, y api.ReachAddr) int {
		return cmp.Or(-cmp.Compare(slices.Index(farness, x.Scope), slices.Index(farness, y.Scope)),
			cmp.Compare(x.Addr, y.Addr))
	})
	r.Advice = append(r.Advice, k.advice(r.From, shut)...)
	return r
}

// mostlyRelayed is the advice behind a router through which holes can seldom be punched.
const mostlyRelayed = "the router gives each connection another port, so others can seldom punch through it and stay " +
	"on a relay, which carries little"

// advice says what the operator can do. shut are the addresses on the Internet at which peers do not
// get through.
func (k reachKnown) advice(from api.ReachFrom, shut []ma.Multiaddr) (all []string) {
	if ports := portsOf(shut); len(ports) > 0 {
		all = append(all,
			fmt.Sprintf("peers do not get through to %s: open it in the firewall of this machine and of its "+
				"router, or forward it from the router to this machine", strings.Join(ports, ", ")))
	}
	switch from {
	case api.ReachUnconfirmed:
		if k.confirmers == 0 {
			all = append(all,
				"no connected peer dials addresses on request: connect to more peers, for instance to a seed "+
					"(dht.bootstrap), then ask again in a minute")
		} else {
			all = append(all, "no peer has answered yet: ask again in a minute")
		}
	case api.ReachLAN, api.ReachRelay:
		if k.status.UDP == "endpoint_dependent" {
			all = append(all, mostlyRelayed)
		}
		if ports := portsOf(k.own); len(ports) > 0 && len(shut) == 0 {
			all = append(all,
				fmt.Sprintf("no address on the Internet is known: forward %s from the router to this machine, "+
					"or turn on UPnP or NAT-PMP in the router and listen.port_map here", strings.Join(ports, ", ")))
		}
	case api.ReachMachine:
		all = append(all,
			"the node listens on loopback alone: set listen.addrs, for instance to /ip4/0.0.0.0/tcp/4901, "+
				"so that other machines can dial it")
	case api.ReachNobody:
		if len(shut) == 0 {
			all = append(all, "the node does not listen: set listen.addrs so that others can dial it; "+
				"it can fetch from others as it is")
		}
	}
	return all
}

// portsOf returns the ports of addresses, as "TCP port 4901", each once.
func portsOf(addrs []ma.Multiaddr) (ports []string) {
	for _, a := range addrs {
		for _, c := range a {
			if c.Code() != ma.P_TCP && c.Code() != ma.P_UDP {
				continue
			}
			port := fmt.Sprintf("%s port %s", strings.ToUpper(c.Protocol().Name), c.Value())
			if !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	slices.Sort(ports)
	return ports
}
