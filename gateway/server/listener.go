package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"allium/gateway/server/conns"
	"allium/internal/limits"
)

// Role is the purpose of a listener.
type Role uint8

// The roles of listeners.
const (
	Public   Role = iota // TCP, for everyone
	Redirect             // plain HTTP beside HTTPS: redirects browsers and answers ACME
	Admin                // TCP, for this machine: mutations need a capability
	Socket               // Unix socket, for the node's own user
	roles
)

// listener is one address with its routes, limits and checks.
type listener struct {
	server *Server
	role   Role
	conns  net.Listener // nil: the caller of Handler accepts connections
	http   *http.Server // set while Run runs

	router    *router
	gate      *limits.Gate
	clients   *clients                  // nil: no limits per client
	transfers *conns.Transfers          // nil: bodies being sent count as requests in flight
	checkHost func(*http.Request) error // checks Host and the origin
	transport
	trust
}

// transport says how a listener speaks HTTP.
type transport struct {
	tls  *tls.Config // nil: no TLS
	hsts string      // Strict-Transport-Security of its answers; empty: none
	h2c  bool        // speaks HTTP/2 without TLS
}

// trust says how far a listener trusts its clients.
type trust struct {
	noTimeouts    bool // the client may read and send at any speed
	hideInternal  bool // clients see no details of internal errors
	trustsClients bool // clients need no capability, because the kernel identifies them
}

// newListener returns a listener with a role on open. A nil open is for Handler.
func (s *Server) newListener(role Role, open net.Listener) *listener {
	l := &listener{server: s, role: role, router: s.routers[role], gate: s.bounds.requests}
	if open != nil {
		l.conns = s.bound(role, open)
	}
	switch role {
	case Public:
		l.clients, l.transfers = s.bounds.clients, s.bounds.transfers
		l.checkHost, l.hideInternal, l.h2c = hasHost, true, s.cfg.H2C
		if s.certs != nil {
			l.tls, l.hsts = tlsConfig(s.certs, s.metrics), s.cfg.TLS.StrictTransportSecurity()
		}
	case Redirect:
		l.checkHost, l.hideInternal = hasHost, true
	case Admin:
		l.gate, l.checkHost = s.bounds.api, ownHostsOnly(s.admin.names(open))
	case Socket:
		l.gate, l.checkHost, l.noTimeouts, l.trustsClients = s.bounds.api, anyHost, true, true
	}
	return l
}

// names returns the hosts by which requests may name the admin listener.
func (c AdminConfig) names(open net.Listener) []string {
	names := append([]string{"localhost"}, c.Hosts...)
	if open != nil {
		if ap, err := netip.ParseAddrPort(open.Addr().String()); err == nil {
			names = append(names, ap.Addr().String())
		}
	}
	return names
}

// bound limits the connections of a listener. The Public and Redirect listeners also limit
// those of each client, and evict idle ones.
func (s *Server) bound(role Role, open net.Listener) *conns.Listener {
	public := role == Public || role == Redirect
	cfg := conns.Config{
		Limits: s.bounds.conns[role], Stall: s.cfg.StallTimeout, HalfClosed: s.bounds.halfClosed,
		Exempt: func(a netip.Addr) bool { return public && s.live.Load().proxies.trust(a) },
		Evicts: public, OnForeignUser: s.refusedUser,
		OnReject: func(reason string) { s.metrics.rejected.WithLabelValues(reason).Inc() },
	}
	if public {
		cfg.Transfers = []*conns.Transfers{s.bounds.transfers, s.bounds.listings}
	}
	return conns.Listen(open, cfg)
}
