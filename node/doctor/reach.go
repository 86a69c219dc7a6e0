package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"allium/gateway/api"
	"allium/internal/ipgroup"
	"allium/node/p2p"
	"allium/protocols/ticket"
)

// reachKnown returns how the node can be reached, or why that is not to be judged.
func (e *exam) reachKnown() (api.Reach, *result) {
	r := e.node.reach
	var skipped result
	switch {
	case r.err != nil:
		skipped = skipErr(r.err)
	case e.testnet():
		skipped = skip("a node of a testnet is on loopback by design")
	case e.profile() == p2p.Client:
		skipped = skip("a client dials and is not dialled")
	default:
		return r.value, nil
	}
	return api.Reach{}, &skipped
}

// short is the severity of what keeps others away: worse for a node whose purpose is to be dialled.
func (e *exam) short(atHome, public Severity) Severity {
	if e.public() {
		return public
	}
	return atHome
}

func checkReach(_ context.Context, e *exam) result {
	r, skipped := e.reachKnown()
	if skipped != nil {
		return *skipped
	}
	advice := strings.Join(r.Advice, "; ")
	if advice == "" {
		advice = "ask again in a minute; `allium doctor reach` shows each address"
	}
	const few = "others fetch from this node slowly or not at all"
	seen := func(what string) saying {
		return say(what+"; %d peers are connected, and %d of them can confirm addresses", r.Peers, r.Confirmers)
	}
	switch r.From {
	case api.ReachAnyone:
		return result{}
	case api.ReachUnconfirmed:
		return note(seen("no peer has confirmed that this node can be dialled"), few, advice)
	case api.ReachRelay:
		return finding(e.short(Note, Warning),
			seen("others reach this node only through a relay, or by punching holes"), few, advice)
	case api.ReachLAN:
		return finding(e.short(Note, Error), seen("only machines in a local network can dial this node"), few, advice)
	case api.ReachMachine:
		return finding(e.short(Warning, Error), seen("only this machine can dial this node"),
			"nobody else can fetch from it, except over connections that it dials", advice)
	}
	return finding(e.short(Warning, Error), seen("nobody can dial this node"),
		"nobody can fetch from it, except over connections that it dials", advice)
}

// addrsOf returns the addresses of the node on the Internet that match, those of relays left out.
func addrsOf(r api.Reach, match func(ma.Multiaddr) bool) (found []api.ReachAddr) {
	for _, a := range r.Addrs {
		parsed, err := ma.NewMultiaddr(a.Addr)
		if err == nil && a.Scope == api.ReachAnyone && a.Via != "relay" && match(parsed) {
			found = append(found, a)
		}
	}
	return found
}

// checkClass finds a class of addresses at which no peer gets through, while others do.
func checkClass(e *exam, class string, match func(ma.Multiaddr) bool, fix string) result {
	r, skipped := e.reachKnown()
	if skipped != nil {
		return *skipped
	}
	is := func(s api.ReachState) func(api.ReachAddr) bool {
		return func(a api.ReachAddr) bool { return a.State == s }
	}
	addrs := addrsOf(r, match)
	switch {
	case r.From != api.ReachAnyone:
		return skip("see the check reach: no address is confirmed")
	case len(addrs) == 0:
		return skip("the node has no address of this kind on the Internet")
	case slices.ContainsFunc(addrs, is(api.ReachConfirmed)):
		return result{}
	case slices.ContainsFunc(addrs, is(api.ReachUnreachable)):
		return finding(e.short(Note, Warning), say("peers get through to this node, but not over %s", plain(class)),
			"peers that have nothing else than "+class+" do not reach it", fix)
	}
	return skip("no peer has said yet")
}

const (
	openPorts = "open the ports of listen.addrs in the firewall of this machine and of its router, or forward them; " +
		"`allium doctor reach` names them"
	openUDP = "allow UDP to the port of listen.addrs in the firewall and the router: a rule for TCP alone is a usual " +
		"mistake"
	openTCP = "allow TCP to the port of listen.addrs in the firewall and the router: a rule for UDP alone is a usual " +
		"mistake"
	openIPv6 = "allow the ports of listen.addrs in the IPv6 firewall of the router, which is separate from that of IPv4"
)

func has(code int) func(ma.Multiaddr) bool {
	return func(a ma.Multiaddr) bool {
		return slices.ContainsFunc(a, func(c ma.Component) bool { return c.Code() == code })
	}
}

func checkIPv4(_ context.Context, e *exam) result {
	return checkClass(e, "IPv4", has(ma.P_IP4), openPorts)
}
func checkIPv6(_ context.Context, e *exam) result {
	return checkClass(e, "IPv6", has(ma.P_IP6), openIPv6)
}
func checkTCP(_ context.Context, e *exam) result { return checkClass(e, "TCP", has(ma.P_TCP), openTCP) }
func checkQUIC(_ context.Context, e *exam) result {
	return checkClass(e, "QUIC", has(ma.P_QUIC_V1), openUDP)
}

// enoughPeers is the number of peers from which their common behaviour means something.
const enoughPeers = 4

func checkConfirmations(_ context.Context, e *exam) result {
	r, skipped := e.reachKnown()
	switch {
	case skipped != nil:
		return *skipped
	case r.Peers < enoughPeers:
		return skip("too few peers are connected")
	case r.Confirmers > 0:
		return result{}
	}
	return note(say("none of %d connected peers dials addresses on request (AutoNAT v2)", r.Peers),
		"the node cannot know whether it can be dialled, and keeps to relays",
		"connect to other peers, for instance to a seed (dht.bootstrap)")
}

func checkNAT(_ context.Context, e *exam) result {
	r, skipped := e.reachKnown()
	switch {
	case skipped != nil:
		return *skipped
	case r.From == api.ReachAnyone:
		return result{}
	case r.NAT.UDP == "endpoint_dependent" || r.NAT.UDP != "endpoint_independent" && r.NAT.TCP == "endpoint_dependent":
		return warn(say("the router gives each connection another port (UDP %s, TCP %s)", plain(word(r.NAT.UDP)),
			plain(word(r.NAT.TCP))),
			"holes can seldom be punched: others stay on a relay, which carries little",
			"forward the ports of listen.addrs from the router to this machine, or use IPv6")
	case r.NAT.UDP == "unknown" && r.NAT.TCP == "unknown":
		return skip("the type of NAT is not known yet")
	}
	return result{}
}

func checkPortMapping(_ context.Context, e *exam) result {
	r, skipped := e.reachKnown()
	mapped := func(a api.ReachAddr) bool { return a.Via == "router" }
	switch {
	case skipped != nil:
		return *skipped
	case !e.Config.Listen.PortMap:
		return skip("listen.port_map is off")
	case r.From == api.ReachMachine:
		return skip("the node listens on loopback alone, so that there is no port to map")
	case r.From == api.ReachAnyone, slices.ContainsFunc(r.Addrs, mapped):
		return result{}
	}
	return note(say("the router has not mapped a port, though listen.port_map asks it to"),
		"others reach this node through a relay or punched holes",
		"turn on UPnP or NAT-PMP in the router, or forward the ports of listen.addrs by hand")
}

func checkUDP(_ context.Context, e *exam) result {
	switch {
	case e.node.peers.err != nil:
		return skipErr(e.node.peers.err)
	case e.Config.Node.SwarmKey != "":
		return skip("a private network has no QUIC")
	case !slices.ContainsFunc(e.Config.Listen.Listen, p2p.IsQUIC) && e.profile() != p2p.Client:
		return skip("the node does not listen on QUIC")
	}
	tcp, quic := 0, 0
	for _, p := range e.node.peers.value {
		a, err := ma.NewMultiaddr(p.Addr)
		if err != nil || !manet.IsPublicAddr(a) || p.Direction != "out" || has(ma.P_CIRCUIT)(a) {
			continue
		}
		if has(ma.P_UDP)(a) {
			quic++
		} else {
			tcp++
		}
	}
	switch {
	case quic > 0:
		return result{}
	case tcp < enoughPeers:
		return skip("too few peers on the Internet were dialled")
	}
	return warn(say("all %d connections to the Internet are over TCP, and none is over QUIC", tcp),
		"a firewall seems to drop UDP: holes can seldom be punched, and dials take longer",
		"allow UDP to leave this network, at least to port 4901")
}

// ownNetworks returns the addresses of this machine, those of loopback and of the link left out.
func (e *exam) ownNetworks() (all []netip.Prefix, err error) {
	list, err := e.Machine.Interfaces()
	for _, p := range list {
		if ip := p.Addr(); !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			all = append(all, p)
		}
	}
	return all, err
}

func checkCarrier(_ context.Context, e *exam) result {
	r, known := e.node.reach.value, e.Node != nil && e.node.reach.err == nil
	const impact = "no port can be forwarded through the NAT of the provider: others reach this node through relays " +
		"and punched holes alone"
	const fix = "use IPv6, ask the provider for a public IPv4 address, or run the node elsewhere"
	if known && r.From == api.ReachAnyone {
		return result{}
	}
	for _, a := range r.Addrs { // the router's own address is a private one: there is another router behind it
		parsed, err := ma.NewMultiaddr(a.Addr)
		ip, ok := ipgroup.IP(parsed)
		if err == nil && a.Via == "router" && ok && ticket.ReachOfIP(ip) != ticket.Anywhere {
			return warn(say("the router mapped a port at %s, which is no address of the Internet", a.Addr), impact, fix)
		}
	}
	if e.Home == "" {
		return result{}
	}
	own, err := e.ownNetworks()
	if err != nil {
		return skip("the addresses of this machine are not known: " + err.Error())
	}
	for _, p := range own {
		// VPNs such as Tailscale use the same range, with a prefix of one address
		if carrier.Contains(p.Addr()) && p.Bits() < p.Addr().BitLen() {
			return warn(say("this machine has the address %s, in the range of providers' NAT (100.64.0.0/10)",
				p.Addr().String()), impact, fix)
		}
	}
	if e.Node == nil {
		return skip("no node runs, so what the router says is not known")
	}
	return result{}
}

func checkNetwork(_ context.Context, e *exam) result {
	if e.testnet() {
		return skip("a node of a testnet is on loopback by design")
	}
	own, err := e.ownNetworks()
	if err != nil {
		return skip("the addresses of this machine are not known: " + err.Error())
	}
	const impact = "the node reaches nobody outside this machine or its network"
	if len(own) == 0 {
		return warn(say("this machine has no address but loopback"), impact, "connect it to a network")
	}
	v4, err4 := e.Machine.read("proc/net/route")
	v6, err6 := e.Machine.read("proc/net/ipv6_route")
	if err4 != nil && err6 != nil {
		return skip("the routes of this machine cannot be read")
	}
	if !defaultIPv4(v4) && !defaultIPv6(v6) {
		return warn(say("this machine has no default route"), impact,
			"set a gateway, or ignore this if the network is meant to be closed")
	}
	return result{}
}

// defaultIPv4 reports whether /proc/net/route has a default route.
func defaultIPv4(routes string) bool {
	for line := range strings.Lines(routes) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return true
		}
	}
	return false
}

// defaultIPv6 reports whether /proc/net/ipv6_route has a default route that is not on loopback.
func defaultIPv6(routes string) bool {
	for line := range strings.Lines(routes) {
		if f := strings.Fields(line); len(f) == 10 && f[1] == "00" && strings.Trim(f[0], "0") == "" && f[9] != "lo" {
			return true
		}
	}
	return false
}

// inContainer are files that the runtimes of containers make.
var inContainer = []string{".dockerenv", "run/.containerenv"}

// bridges are the networks that the runtimes of containers use by default.
var bridges = []netip.Prefix{
	netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("10.88.0.0/16"),
}

func checkContainer(_ context.Context, e *exam) result {
	in := slices.ContainsFunc(inContainer, func(name string) bool {
		_, err := e.Machine.read(name)
		return err == nil
	})
	switch {
	case !in:
		return result{}
	case e.testnet():
		return skip("a node of a testnet is on loopback by design")
	case e.node.reach.value.From == api.ReachAnyone:
		return result{}
	}
	own, err := e.ownNetworks()
	if err != nil {
		return skip("the addresses of this machine are not known: " + err.Error())
	}
	if len(own) == 0 {
		return result{} // the check network says so
	}
	for _, p := range own {
		if !slices.ContainsFunc(bridges, func(b netip.Prefix) bool { return b.Contains(p.Addr()) }) {
			return result{} // the container uses the host's network, or has an address outside the bridges
		}
	}
	return note(say("the node is in a container with its own network (%d addresses)", len(own)),
		"the container's NAT hides the node: nobody can dial it, and the router's port mapping does not work",
		fmt.Sprintf("run the container with --network host, or publish the ports, such as -p %[1]d:%[1]d/tcp "+
			"-p %[1]d:%[1]d/udp, and set listen.announce", e.Config.Listen.Port))
}
