package reach

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// view holds the facts that decide which addresses are announced. It does not change once it is stored.
type view struct {
	internet  bool           // the node talks with public addresses
	direct    bool           // peers can dial it without a relay
	own       []ma.Multiaddr // of its interfaces
	reachable []ma.Multiaddr // confirmed
	relayed   []ma.Multiaddr // through its relays
}

// equal reports whether both views announce the same.
func (v *view) equal(o *view) bool {
	return v.internet == o.internet && v.direct == o.direct && equal(v.own, o.own) &&
		equal(v.reachable, o.reachable) && equal(v.relayed, o.relayed)
}

func equal(a, b []ma.Multiaddr) bool { return slices.EqualFunc(a, b, ma.Multiaddr.Equal) }

// announced returns the addresses to announce, of the addresses at which the host listens or is seen. The
// library has removed unreachable ones. always are those of listen.announce.
func (v *view) announced(all, always []ma.Multiaddr) []ma.Multiaddr {
	onInternet := v.internet || len(always) > 0 || slices.ContainsFunc(v.relayed, manet.IsPublicAddr) ||
		slices.ContainsFunc(all, func(a ma.Multiaddr) bool { return !IsRelayed(a) && manet.IsPublicAddr(a) })
	var told []ma.Multiaddr
	for _, a := range all {
		switch {
		case IsRelayed(a): // the library adds them only while nothing is confirmed
		case !onInternet, v.announcedDirect(a):
			told = append(told, a)
		}
	}
	told = append(told, v.relayed...)
	return ma.Unique(append(told, always...))
}

// announcedDirect reports whether a direct address is announced on the Internet.
func (v *view) announcedDirect(a ma.Multiaddr) bool {
	return manet.IsPublicAddr(a) &&
		(slices.ContainsFunc(v.own, bare(a).Equal) || slices.ContainsFunc(v.reachable, a.Equal))
}

// bare returns an address without the hashes of certificates, which the interfaces do not know.
func bare(a ma.Multiaddr) ma.Multiaddr {
	return slices.DeleteFunc(slices.Clone(a), func(c ma.Component) bool { return c.Code() == ma.P_CERTHASH })
}

// IsRelayed reports whether an address leads through a relay.
func IsRelayed(a ma.Multiaddr) bool {
	return slices.ContainsFunc(a, func(c ma.Component) bool { return c.Code() == ma.P_CIRCUIT })
}

// through returns the addresses at which a node is reached through a relay: at most relayAddrs plain ones,
// the most useful first. said is what the relay claims of itself, and at the address of the connection to it.
// A relay without a public address gives only addresses of the same IP.
func through(relay peer.ID, said []ma.Multiaddr, at ma.Multiaddr) []ma.Multiaddr {
	suffix, err := ma.NewMultiaddr("/p2p/" + relay.String() + "/p2p-circuit")
	if err != nil {
		return nil // cannot happen: an ID is always valid
	}
	here, _ := manet.ToIP(at)
	var near, far []ma.Multiaddr
	for _, a := range said {
		a, id := peer.SplitAddr(a)
		if a == nil || id != "" && id != relay || !plain(a) {
			continue
		}
		switch ip, err := manet.ToIP(a); {
		case err == nil && here != nil && ip.Equal(here):
			near = append(near, a)
		case manet.IsPublicAddr(a) && manet.IsPublicAddr(at):
			far = append(far, a)
		}
	}
	all := ma.Unique(append(near, far...))
	all = append(only(all, near), only(all, far)...) // Unique sorts
	addrs := make([]ma.Multiaddr, 0, relayAddrs)
	for _, a := range all[:min(len(all), relayAddrs)] {
		addrs = append(addrs, a.Encapsulate(suffix))
	}
	return addrs
}

// only returns those of all that are in some.
func only(all, some []ma.Multiaddr) (both []ma.Multiaddr) {
	for _, a := range all {
		if slices.ContainsFunc(some, a.Equal) {
			both = append(both, a)
		}
	}
	return both
}

// plain reports whether a is an IP address or a name with TCP or QUIC alone: what every node can dial.
func plain(a ma.Multiaddr) bool {
	if len(a) == 0 {
		return false
	}
	switch a[0].Code() {
	case ma.P_IP4, ma.P_IP6, ma.P_DNS, ma.P_DNS4, ma.P_DNS6:
		return len(a) == 2 && a[1].Code() == ma.P_TCP ||
			len(a) == 3 && a[1].Code() == ma.P_UDP && a[2].Code() == ma.P_QUIC_V1
	}
	return false
}
