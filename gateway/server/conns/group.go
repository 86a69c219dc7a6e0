package conns

import "net/netip"

// AddrOf returns the address of "host:port", which is zero for a Unix socket.
func AddrOf(s string) netip.Addr {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.Addr{} // a Unix socket has none
	}
	return ap.Addr().Unmap().WithZone("")
}

// GroupOf returns the addresses that one subscriber can use: an IPv4 address or an IPv6 /64.
func GroupOf(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // a Unix socket has no address
	}
	return p
}
