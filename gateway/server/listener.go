package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"allium/internal/limits"
)

// Role is what a listener is for.
type Role uint8

// The roles of listeners.
const (
	Public   Role = iota // strangers, over TCP
	Redirect             // plain http beside https: sends browsers there, and answers ACME
	Admin                // this machine, over TCP: what changes something needs a capability
	Socket               // the node's own user, over a Unix socket
	roles
)

// listener is one address with what is served on it and what guards it.
type listener struct {
	server *Server
	role   Role
	conns  net.Listener // nil: others bring connections
	http   *http.Server // while Run runs

	router    *router
	gate      *limits.Gate
	clients   *clients                  // nil: clients are not told apart
	transfers *transfers                // nil: bodies under way are requests in flight
	guard     func(*http.Request) error // who may ask, by Host and origin
	patient   bool                      // the client may stand still as long as it wants
	discreet  bool                      // what went wrong inside is not for its clients
	trusted   bool                      // its clients need no capability: the kernel says who they are

	tls  *tls.Config // nil: none
	hsts string      // Strict-Transport-Security of its answers; empty: none
	h2c  bool        // speaks HTTP/2 without TLS
}

// newListener returns the listener of a role at an open address; nil: at none.
func (s *Server) newListener(role Role, open net.Listener) *listener {
	l := &listener{server: s, role: role, router: s.routers[role], gate: s.bounds.requests}
	if open != nil {
		l.conns = s.bound(role, open)
	}
	switch role {
	case Public:
		l.clients, l.transfers, l.guard, l.discreet, l.h2c = s.bounds.clients, s.bounds.transfers, hasHost, true, s.cfg.H2C
		if s.certs != nil {
			l.tls, l.hsts = tlsConfig(s.certs, s.metrics), s.cfg.TLS.StrictTransportSecurity()
		}
	case Redirect:
		l.guard, l.discreet = hasHost, true
	case Admin:
		l.gate, l.guard = s.bounds.api, ownPages(s.adminNames(open))
	case Socket:
		l.gate, l.guard, l.patient, l.trusted = s.bounds.api, anyHost, true, true
	}
	return l
}

// adminNames are what requests may call the admin listener.
func (s *Server) adminNames(open net.Listener) []string {
	names := append([]string{"localhost"}, s.admin.Hosts...)
	if open != nil {
		if ap, err := netip.ParseAddrPort(open.Addr().String()); err == nil {
			names = append(names, ap.Addr().String())
		}
	}
	return names
}

// bound bounds the connections of a listener. Where they are strangers', each
// client has its share, and who only waits makes room.
func (s *Server) bound(role Role, open net.Listener) *limited {
	at := s.bounds.conns[role]
	l := &limited{
		Listener: open, gate: at.all, pace: paceLimits{s.cfg.WriteTimeout, int64(s.cfg.MinRate)}, idle: s.cfg.IdleTimeout,
		foreign: s.refusedUser, reject: func(reason string) { s.metrics.rejected.WithLabelValues(reason).Inc() },
	}
	if role == Public || role == Redirect {
		l.perIP, l.exempt = at.perIP, s.proxies
		l.waiting, l.transfers = newWaiting(), []*transfers{s.bounds.transfers, s.bounds.listings}
	}
	return l
}
