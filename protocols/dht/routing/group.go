package routing

import (
	"math"
	"net/netip"
	"slices"
	"strconv"

	asnutil "github.com/libp2p/go-libp2p-asn-util"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Group is what peers of one operator are likely to share: the /16 of a public
// IPv4 address ("203.0.0.0/16"), the autonomous system of a public IPv6 address
// ("AS3320") or, where that is not known, its /32 ("2a00::/32"). Addresses that
// only a local network can use have none and are exempt.
//
// A relayed address counts as the relay's, so that a relay does not make many
// places out of one. What says nothing of the place (a name, a relay without a
// public address) is in one group for all: [Unplaced]. It counts only for a
// peer that no public address places.
type Group string

// Unplaced is the group of peers that no address tells the place of.
const Unplaced Group = "unplaced"

// groupsOf is the groups of a peer with these addresses, sorted, each once, the
// first maxGroups of them. A peer of which all addresses are exempt has none.
func groupsOf(addrs []ma.Multiaddr) []Group {
	var groups []Group
	unplaced := false
	for _, a := range addrs {
		switch g, ok := groupOf(a); {
		case g == Unplaced:
			unplaced = true
		case ok && len(groups) < maxGroups && !slices.Contains(groups, g):
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 && unplaced {
		return []Group{Unplaced}
	}
	slices.Sort(groups)
	return groups
}

// groupOf is the group of one address, false when it is exempt.
func groupOf(a ma.Multiaddr) (Group, bool) {
	ip, ok := ipOf(a)
	if !ok {
		return Unplaced, true
	}
	if !public(ip) {
		if slices.ContainsFunc(a, func(c ma.Component) bool { return c.Code() == ma.P_CIRCUIT }) {
			return Unplaced, true
		}
		return "", false
	}
	bits := 16
	if ip.Is6() {
		if asn := asnutil.AsnForIPv6(ip.AsSlice()); asn != 0 {
			return Group("AS" + strconv.FormatUint(uint64(asn), 10)), true
		}
		bits = 32
	}
	return Group(netip.PrefixFrom(ip, bits).Masked().String()), true
}

// nat64 is the well-known prefix of IPv4 addresses seen from a network that has
// IPv6 alone (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// ipOf is the address that a starts with: of the peer, or of its relay. IPv4
// addresses in IPv6 clothes are IPv4 addresses.
func ipOf(a ma.Multiaddr) (netip.Addr, bool) {
	if len(a) > 0 && a[0].Code() == ma.P_IP6ZONE {
		a = a[1:]
	}
	if len(a) == 0 || a[0].Code() != ma.P_IP4 && a[0].Code() != ma.P_IP6 {
		return netip.Addr{}, false
	}
	ip, ok := netip.AddrFromSlice(a[0].RawValue())
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip, ok
}

// public reports whether the whole Internet can use ip: it is not loopback,
// private, link-local, shared by a provider's customers (100.64.0.0/10),
// multicast, reserved or for documentation.
func public(ip netip.Addr) bool {
	a, err := manet.FromIP(ip.AsSlice())
	return err == nil && manet.IsPublicAddr(a)
}

// entropy is the Shannon entropy of the groups over the table's entries, as a
// share of what it were if no two entries had one in common; 1 while there are
// not two. Exempt entries do not count, and one of several groups counts in each.
func (t *Table) entropy() float64 {
	counts := make(map[Group]int)
	n := 0
	for i := range t.buckets {
		for _, e := range t.buckets[i].load() {
			for _, g := range *e.groups.Load() {
				counts[g]++
				n++
			}
		}
	}
	if n < 2 {
		return 1
	}
	var h float64
	for _, c := range counts {
		p := float64(c) / float64(n)
		h -= p * math.Log2(p)
	}
	return h / math.Log2(float64(n))
}
