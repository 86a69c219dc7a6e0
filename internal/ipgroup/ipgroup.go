// Package ipgroup tells which peers are likely to have one operator: those with
// addresses in one group. Identities cost nothing, addresses in many networks
// do; so what is shared out by group cannot be taken by inventing peers.
package ipgroup

import (
	"net/netip"
	"slices"
	"strconv"

	asnutil "github.com/libp2p/go-libp2p-asn-util"
	"github.com/libp2p/go-libp2p/core/peer"
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

// maxGroups bounds the groups of one peer.
const maxGroups = 16

// All returns the groups of a peer with these addresses, sorted, each once, the
// first 16 of them. A peer of which all addresses are exempt has none.
func All(addrs []ma.Multiaddr) []Group {
	var groups []Group
	unplaced := false
	for _, a := range addrs {
		switch g := Of(a); {
		case g == Unplaced:
			unplaced = true
		case g != "" && len(groups) < maxGroups && !slices.Contains(groups, g):
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 && unplaced {
		return []Group{Unplaced}
	}
	slices.Sort(groups)
	return groups
}

// Of returns the group of one address, such as the remote one of a connection;
// empty when it is exempt.
func Of(a ma.Multiaddr) Group {
	ip, ok := IP(a)
	if !ok {
		return Unplaced
	}
	if !public(ip) {
		if slices.ContainsFunc(a, func(c ma.Component) bool { return c.Code() == ma.P_CIRCUIT }) {
			return Unplaced
		}
		return ""
	}
	bits := 16
	if ip.Is6() {
		if asn := asnutil.AsnForIPv6(ip.AsSlice()); asn != 0 {
			return Group("AS" + strconv.FormatUint(uint64(asn), 10))
		}
		bits = 32
	}
	return Group(netip.PrefixFrom(ip, bits).Masked().String())
}

// nat64 is the well-known prefix of IPv4 addresses seen from a network that has
// IPv6 alone (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// IP returns the address that a starts with: of the peer, or of its relay; false
// when there is none. An IPv4 address written as an IPv6 address is returned as
// the IPv4 address.
func IP(a ma.Multiaddr) (netip.Addr, bool) {
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

// Key returns what the shares of a peer on a connection from a are counted by:
// the address's group, or the peer itself where the address is exempt.
func Key(a ma.Multiaddr, p peer.ID) string {
	if g := Of(a); g != "" {
		return string(g)
	}
	return "peer " + string(p)
}
