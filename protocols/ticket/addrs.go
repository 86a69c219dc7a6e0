package ticket

import (
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// address parses the binary form of an address of a ticket. A relayed address has one /p2p-circuit, at
// its end; another one has none, and no peer ID.
func address(raw []byte, relayed bool) (ma.Multiaddr, error) {
	if len(raw) > MaxAddress {
		return nil, badField("an address is too long")
	}
	a, err := ma.NewMultiaddrBytes(raw)
	if err != nil || len(a) < 2 {
		return nil, badField("an address is none")
	}
	circuits, ids := 0, 0
	for _, c := range a {
		switch c.Code() {
		case ma.P_CIRCUIT:
			circuits++
		case ma.P_P2P:
			ids++
		}
	}
	last := a[len(a)-1].Code()
	switch {
	case relayed && (circuits != 1 || ids != 1 || last != ma.P_CIRCUIT):
		return nil, badField("the relay is no relayed address")
	case !relayed && circuits+ids > 0:
		return nil, badField("an address has a peer ID or a relay in it")
	}
	return a, nil
}

// Reach is from where an address can be dialled.
type Reach uint8

// The values of Reach, the nearest first.
const (
	Nowhere  Reach = iota // not at all: it is unspecified, a multicast address or a name
	Machine               // from the same machine: a loopback address
	LAN                   // from the same local network: a private or link-local address
	Anywhere              // from the Internet
)

// String returns the words for people.
func (r Reach) String() string {
	return [...]string{"nobody", "this machine", "this local network", "anyone"}[r]
}

// notPublic are ranges, beside the private ones, that no router of the Internet knows.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/32"),
}

// ReachOf says from where the IP address that a begins with can be dialled. For a relayed address that is
// the address of the relay. A DNS name is Nowhere: what it stands for may change after a check.
func ReachOf(a ma.Multiaddr) (Reach, netip.Addr) {
	raw, err := manet.ToIP(a)
	if err != nil {
		return Nowhere, netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(raw)
	ip = ip.Unmap()
	return ReachOfIP(ip), ip
}

// ReachOfIP says from where an IP address can be dialled.
func ReachOfIP(ip netip.Addr) Reach {
	ip = ip.Unmap()
	switch {
	case ip.IsUnspecified() || ip.IsMulticast():
		return Nowhere
	case ip.IsLoopback():
		return Machine
	case ip.IsPrivate() || ip.IsLinkLocalUnicast():
		return LAN
	}
	for _, p := range notPublic {
		if p.Contains(ip) {
			return LAN
		}
	}
	return Anywhere
}

// Source returns the peer of the ticket with the addresses that this machine may dial. Private ones are
// those in a prefix of its interfaces. Loopback ones are there only with loopback, for commands that a
// person on this machine has typed.
func (t Ticket) Source(interfaces []netip.Prefix, loopback bool) peer.AddrInfo {
	p := peer.AddrInfo{ID: t.Peer}
	for _, a := range t.Addrs {
		if dialable(a, interfaces, loopback) {
			p.Addrs = append(p.Addrs, a)
		}
	}
	if t.Relay != nil && dialable(t.Relay, interfaces, loopback) {
		p.Addrs = append(p.Addrs, t.Relay)
	}
	return p
}

func dialable(a ma.Multiaddr, interfaces []netip.Prefix, loopback bool) bool {
	switch reach, ip := ReachOf(a); reach {
	case Anywhere:
		return true
	case Machine:
		return loopback
	case LAN:
		for _, p := range interfaces {
			if p.Contains(ip) {
				return true
			}
		}
	}
	return false
}

// Reach returns from where the ticket works: the furthest Reach of its addresses.
func (t Ticket) Reach() Reach {
	furthest := Nowhere
	for _, a := range t.Addrs {
		r, _ := ReachOf(a)
		furthest = max(furthest, r)
	}
	if t.Relay != nil {
		r, _ := ReachOf(t.Relay)
		furthest = max(furthest, r)
	}
	return furthest
}
