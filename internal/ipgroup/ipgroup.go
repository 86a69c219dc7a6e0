// Package ipgroup groups peers by the network of their addresses, so that peers which
// probably have one operator share a bound. Identities cost nothing, but addresses in
// many networks do: an operator gains nothing by inventing peers.
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

// Group is the network of an address: the /16 of a public IPv4 address
// ("203.0.0.0/16"), the autonomous system of a public IPv6 address ("AS3320"), or its
// /32 ("2a00::/32") if the autonomous system is not known. Addresses of local networks
// have no group; they are exempt.
//
// A relayed address has the group of its relay, so that one relay does not look like
// many networks. All addresses without a known network (a name, a relay without a
// public address) share the group [Unplaced]. It counts only for a peer that has no
// public address.
type Group string

// Unplaced is the group of all addresses whose network is not known.
const Unplaced Group = "unplaced"

// maxGroups bounds the groups of one peer.
const maxGroups = 16

// All returns the groups of a peer with these addresses: the first 16, sorted, each
// once. A peer that has only exempt addresses has no group.
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

// Of returns the group of one address, such as the remote address of a connection. It
// is empty if the address is exempt.
func Of(a ma.Multiaddr) Group {
	ip, ok := IP(a)
	if !ok {
		return Unplaced
	}
	if !Public(ip) {
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

// nat64 is the well-known prefix of IPv4 addresses as networks with IPv6 only see them
// (RFC 6052), and sixToFour that of the networks that each public IPv4 address has (RFC 3056).
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// IP returns the IP address at the beginning of a, which is the peer's or its relay's, or false if there is none. It
// returns an IPv4 address in IPv6 notation as IPv4, and for a NAT64 or 6to4 address the public IPv4 address inside it.
func IP(a ma.Multiaddr) (netip.Addr, bool) {
	if len(a) > 0 && a[0].Code() == ma.P_IP6ZONE {
		a = a[1:]
	}
	if len(a) == 0 || a[0].Code() != ma.P_IP4 && a[0].Code() != ma.P_IP6 {
		return netip.Addr{}, false
	}
	ip, ok := netip.AddrFromSlice(a[0].RawValue())
	ip = ip.Unmap()
	inside := ip
	switch b := ip.As16(); {
	case nat64.Contains(ip):
		inside = netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		inside = netip.AddrFrom4([4]byte(b[2:]))
	}
	if Public(inside) {
		ip = inside
	}
	return ip, ok
}

// Address returns what counts as one address at the beginning of a: an IPv4 address, the /56 of
// an IPv6 one, which one customer of a provider has, or a private or link-local IPv6 address
// itself, as the hosts of a LAN share their /56. ok is false if a does not begin with an address.
func Address(a ma.Multiaddr) (one netip.Prefix, ok bool) {
	ip, ok := IP(a)
	if !ok {
		return one, false
	}
	bits := ip.BitLen()
	if ip.Is6() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() && !ip.IsLoopback() {
		bits = 56
	}
	return netip.PrefixFrom(ip, bits).Masked(), true
}

// Public reports whether ip is an address of the public Internet: it is not loopback,
// private, link-local, shared by a provider's customers (100.64.0.0/10),
// multicast, reserved or for documentation.
func Public(ip netip.Addr) bool {
	a, err := manet.FromIP(ip.AsSlice())
	return err == nil && manet.IsPublicAddr(a)
}

// Key returns the key by which the bounds of a connection of the peer p from the
// address a are counted: the group of a, or the peer itself if a is exempt.
func Key(a ma.Multiaddr, p peer.ID) string {
	if g := Of(a); g != "" {
		return string(g)
	}
	return "peer " + string(p)
}
