package weblink

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"allium/gateway/api"
	"allium/protocols/ticket"
)

// Place is an address of a link, and who can open it.
type Place struct {
	URL   string
	Reach api.ReachFrom // machine, lan, unconfirmed or anyone
}

// places returns a URL for each reach that a listener has, the farthest first. all are the addresses of this machine,
// and preferred is the one that it sends from.
func places(listener netip.AddrPort, all []netip.Addr, preferred netip.Addr, path string) []Place {
	if !listener.Addr().IsUnspecified() {
		all = []netip.Addr{listener.Addr()}
	}
	best := map[api.ReachFrom]netip.Addr{}
	for _, ip := range all {
		ip = ip.Unmap()
		reach := reachOf(ip)
		if reach == "" {
			continue
		}
		if have, ok := best[reach]; !ok || better(ip, have, preferred) {
			best[reach] = ip
		}
	}
	var found []Place
	for _, reach := range []api.ReachFrom{api.ReachUnconfirmed, api.ReachLAN, api.ReachMachine} {
		if ip, ok := best[reach]; ok {
			host := net.JoinHostPort(ip.String(), strconv.Itoa(int(listener.Port())))
			found = append(found, Place{"http://" + host + path, reach})
		}
	}
	return found
}

// better reports whether a is the better address of two with the same reach: the one that this machine sends from, or
// else IPv4, which people can read out.
func better(a, b, preferred netip.Addr) bool {
	weigh := func(ip netip.Addr) int {
		switch {
		case ip == preferred:
			return 2
		case ip.Is4():
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(weigh(a), weigh(b)), cmp.Compare(b.String(), a.String())) > 0
}

// ReachOf returns who can open a URL, "" for a text that is none or has no address or name that others know.
func ReachOf(text string) api.ReachFrom {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return reachOf(ip)
	}
	if u.Hostname() == "localhost" {
		return api.ReachMachine
	}
	return api.ReachUnconfirmed // a name
}

// reachOf returns who can open a URL with an address, "" for one that needs a zone or is none of a machine.
func reachOf(ip netip.Addr) api.ReachFrom {
	switch {
	case ip.IsLoopback():
		return api.ReachMachine
	case !ip.IsGlobalUnicast():
		return ""
	case ticket.ReachOfIP(ip) == ticket.LAN:
		return api.ReachLAN
	}
	return api.ReachUnconfirmed
}

// machineAddrs returns the addresses of this machine, and the one that it sends from, if that is known.
func machineAddrs() (all []netip.Addr, preferred netip.Addr) {
	list, _ := net.InterfaceAddrs() // without a list, loopback is left
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, ip.Unmap())
			}
		}
	}
	// A connected UDP socket has the address of its route. Nothing is sent.
	remote := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), 9))
	if c, err := net.DialUDP("udp4", nil, remote); err == nil {
		if at, ok := c.LocalAddr().(*net.UDPAddr); ok {
			preferred = at.AddrPort().Addr().Unmap()
		}
		_ = c.Close() // nothing was sent
	}
	if len(all) == 0 {
		all = append(all, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return all, preferred
}

// onGateway returns the place of a link at the node's public listener, if others than this machine may reach that.
func onGateway(base, path string) []Place {
	reach := ReachOf(base)
	if reach == "" || reach == api.ReachMachine {
		return nil
	}
	return []Place{{base + path, reach}}
}

// sortPlaces puts the farthest place first, and of two with the same reach the one with TLS.
func sortPlaces(all []Place) {
	far := []api.ReachFrom{api.ReachMachine, api.ReachLAN, api.ReachUnconfirmed, api.ReachAnyone}
	slices.SortStableFunc(all, func(a, b Place) int {
		tls := func(p Place) int { return len(p.URL) - len(trimTLS(p.URL)) }
		return cmp.Or(cmp.Compare(slices.Index(far, b.Reach), slices.Index(far, a.Reach)), cmp.Compare(tls(b), tls(a)))
	})
}
