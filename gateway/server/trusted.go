package server

import (
	"net/http"
	"net/netip"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// maxHops is how many proxies a request may have come through.
const maxHops = 16

// proxies are the addresses whose word is taken for where a request comes from.
type proxies []netip.Prefix

func parseProxies(cidrs []string) (proxies, error) {
	var p proxies
	for _, s := range cidrs {
		prefix, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		if err != nil || prefix.Addr().Is4In6() {
			return nil, status.Errorf(status.BadRequest, "gateway.trusted_proxies holds %q, want addresses or CIDRs such as 10.0.0.0/8", s)
		}
		p = append(p, prefix.Masked())
	}
	return p, nil
}

func (p proxies) trust(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// originOf is where a request comes from. Only what a trusted proxy says is
// listened to, and of that the nearest: who asks may have sent the rest. Where
// X-Forwarded-For and Forwarded do not name the same client, one of them went
// through the proxy unseen, and neither counts.
func (p proxies) originOf(r *http.Request) exchange.Origin {
	peer := peerOf(r)
	o := exchange.Origin{Addr: peer}
	if len(p) > 0 && p.trust(peer) {
		o = p.forwarded(r, o)
	}
	o.Group = groupOf(o.Addr)
	return o
}

func (p proxies) forwarded(r *http.Request, o exchange.Origin) exchange.Origin {
	xff, fwd := r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded")
	byXFF, byFwd := o.Addr, o.Addr
	if len(xff) > 0 {
		byXFF = p.walk(o.Addr, strings.Join(xff, ","), func(hop string) string { return hop })
	}
	if len(fwd) > 0 {
		byFwd = p.walk(o.Addr, strings.Join(fwd, ","), func(hop string) string { return forwardedParam(hop, "for") })
	}
	switch {
	case len(fwd) == 0:
		o.Addr = byXFF
	case len(xff) == 0 || byXFF == byFwd:
		o.Addr = byFwd
	}
	return o
}

// walk goes from the peer backwards over the hops that are trusted, and returns
// the first address that is not, or the last one that can be read.
func (p proxies) walk(at netip.Addr, hops string, address func(hop string) string) netip.Addr {
	for range maxHops {
		i := strings.LastIndexByte(hops, ',')
		next, ok := parseHop(address(strings.TrimSpace(hops[i+1:])))
		if !ok {
			return at
		}
		if at = next; i < 0 || !p.trust(at) {
			return at
		}
		hops = hops[:i]
	}
	return at
}

// parseHop reads an address with or without a port: 192.0.2.1:80, [2001:db8::1].
func parseHop(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}

// forwardedParam is a parameter of one element of Forwarded (RFC 7239), or "".
func forwardedParam(element, name string) string {
	for pair := range strings.SplitSeq(element, ";") {
		if k, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.EqualFold(k, name) {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// peerOf is the address at the other end of a request's connection.
func peerOf(r *http.Request) netip.Addr {
	if c := connOf(r); c != nil {
		return c.peer
	}
	return parseAddrPort(r.RemoteAddr)
}

func parseAddrPort(s string) netip.Addr {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.Addr{} // a Unix socket's
	}
	return ap.Addr().Unmap().WithZone("")
}

// groupOf is what one subscriber can use: an IPv4 address or an IPv6 /64.
func groupOf(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // of a Unix socket
	}
	return p
}
