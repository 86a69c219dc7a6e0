package origin

import (
	"errors"
	"net/netip"
)

// reach says who may dial an address of a special range.
type reach uint8

const (
	never     reach = iota // nobody
	ifPrivate              // a source with private = true
)

// specialRanges are the ranges that are no public unicast addresses, by the IANA registries of special-purpose
// addresses. The ranges that embed an IPv4 address are refused as a whole, whatever address they embed.
//
// A source with private = true may dial local networks: loopback, private, shared, link-local and unique local
// addresses. Multicast, documentation and other special addresses stay refused.
var specialRanges = []struct {
	prefix netip.Prefix
	reach  reach
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), never, "this network (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), ifPrivate, "private (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), ifPrivate, "shared by carriers and overlay networks (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), ifPrivate, "loopback (RFC 1122)"},
	{netip.MustParsePrefix("169.254.0.0/16"), ifPrivate, "link-local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), ifPrivate, "private (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), never, "protocol assignments (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), never, "documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.31.196.0/24"), never, "AS112 (RFC 7535)"},
	{netip.MustParsePrefix("192.52.193.0/24"), never, "AMT relays (RFC 7450)"},
	{netip.MustParsePrefix("192.88.99.0/24"), never, "6to4 relays (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), ifPrivate, "private (RFC 1918)"},
	{netip.MustParsePrefix("192.175.48.0/24"), never, "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("198.18.0.0/15"), never, "benchmarks (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), never, "documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), never, "documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), never, "multicast (RFC 5771)"},
	{netip.MustParsePrefix("240.0.0.0/4"), never, "reserved, and broadcast (RFC 1112, RFC 919)"},

	{netip.MustParsePrefix("::1/128"), ifPrivate, "loopback (RFC 4291)"},
	{netip.MustParsePrefix("::/96"), never, "unspecified, and IPv4-compatible (RFC 4291)"},
	{netip.MustParsePrefix("::ffff:0:0/96"), never, "IPv4-mapped (RFC 4291)"},
	{netip.MustParsePrefix("64:ff9b::/96"), never, "NAT64 (RFC 6052)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), never, "local NAT64 (RFC 8215)"},
	{netip.MustParsePrefix("100::/64"), never, "discarded (RFC 6666)"},
	{netip.MustParsePrefix("2001::/23"), never,
		"protocol assignments (RFC 2928): Teredo (RFC 4380), benchmarks (RFC 5180), ORCHID (RFC 4843, RFC 7343)"},
	{netip.MustParsePrefix("2001:db8::/32"), never, "documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), never, "6to4 (RFC 3056)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), never, "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("3fff::/20"), never, "documentation (RFC 9637)"},
	{netip.MustParsePrefix("5f00::/16"), never, "segment routing (RFC 9602)"},
	{netip.MustParsePrefix("fc00::/7"), ifPrivate, "unique local (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), ifPrivate, "link-local (RFC 4291)"},
	{netip.MustParsePrefix("fec0::/10"), never, "site-local (RFC 3879)"},
	{netip.MustParsePrefix("ff00::/8"), never, "multicast (RFC 4291)"},
}

// globalUnicast is the part of IPv6 from which addresses are given out (RFC 4291 §2.4).
var globalUnicast = netip.MustParsePrefix("2000::/3")

// rangeError reports an address that must not be dialed.
type rangeError struct{ what string }

// Error returns what is wrong with the address.
func (e *rangeError) Error() string { return "the address is refused: " + e.what }

// errNoAddress reports that the dialer got something else than an address.
var errNoAddress = errors.New("the address is refused: it is no IP address and port")

// checkAddress returns an error for an address that a source must not dial.
func checkAddress(a netip.Addr, private bool) error {
	if !a.IsValid() {
		return errNoAddress
	}
	zoned := a.Zone() != ""
	a = a.WithZone("") // no prefix contains an address with a zone
	for _, r := range specialRanges {
		if !r.prefix.Contains(a) {
			continue
		}
		if r.reach == ifPrivate && private {
			return nil
		}
		return &rangeError{r.what}
	}
	switch {
	case zoned:
		return &rangeError{"it has a zone and is not link-local"}
	case a.Is6() && !globalUnicast.Contains(a):
		return &rangeError{"not global unicast (RFC 4291)"}
	}
	return nil
}
