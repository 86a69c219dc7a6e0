package server

import (
	"net/http"
	"net/netip"
	"strings"

	"allium/gateway/exchange"
	"allium/gateway/server/conns"
	"allium/protocols/status"
)

// maxHops bounds the proxies of a request that are followed back.
const maxHops = 16

// proxies are the addresses that may name the client of a request.
type proxies []netip.Prefix

func parseProxies(cidrs []string) (proxies, error) {
	var p proxies
	for _, s := range cidrs {
		prefix, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		if err != nil || prefix.Addr().Is4In6() {
			return nil, status.Errorf(status.BadRequest,
				"gateway.trusted_proxies contains %q. Set it to addresses or CIDRs such as 10.0.0.0/8", s)
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

// originOf returns the client of a request. It believes only trusted proxies, and of their
// headers only the nearest hops, because the client may have sent the rest. If X-Forwarded-For
// and Forwarded name different clients, the proxy passed one of them on unchecked, and
// originOf ignores both.
func (p proxies) originOf(r *http.Request) exchange.Origin {
	peer := peerOf(r)
	o := exchange.Origin{Addr: peer, Secure: r.TLS != nil}
	if len(p) > 0 && p.trust(peer) {
		o = p.forwarded(r, o)
		if scheme := r.Header["X-Forwarded-Proto"]; len(scheme) == 1 {
			o.Secure = strings.EqualFold(scheme[0], "https")
		}
	}
	o.Group = conns.GroupOf(o.Addr)
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

// walk follows the hops backwards from the peer at while they are trusted. It returns the first
// untrusted address, or the last one that it can parse.
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

// parseHop parses an address with or without a port, such as 192.0.2.1:80 or [2001:db8::1].
func parseHop(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}

// forwardedParam returns a parameter of one element of Forwarded (RFC 7239), or "".
func forwardedParam(element, name string) string {
	for pair := range strings.SplitSeq(element, ";") {
		if k, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.EqualFold(k, name) {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// peerOf returns the address at the other end of a request's connection.
func peerOf(r *http.Request) netip.Addr {
	if c := conns.Of(r); c != nil {
		return c.Peer()
	}
	return conns.AddrOf(r.RemoteAddr)
}
