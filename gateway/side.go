package gateway

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// side is one listener with what is served on it and what guards it.
type side struct {
	g        *Gateway
	listener net.Listener
	server   *http.Server

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

func (g *Gateway) publicSide(l net.Listener) *side {
	s := &side{g: g, listener: l, router: g.publicRouter, gate: g.inflight, clients: g.clients, transfers: g.transfers, guard: hasHost, discreet: true, h2c: g.cfg.H2C}
	if g.certs != nil {
		s.tls, s.hsts = tlsConfig(g.certs, g.m), g.cfg.TLS.StrictTransportSecurity()
	}
	return s
}

func (g *Gateway) adminSide(l net.Listener, addr net.Addr) *side {
	names := append([]string{"localhost"}, g.admin.Hosts...)
	if ap, err := netip.ParseAddrPort(addr.String()); err == nil {
		names = append(names, ap.Addr().String())
	}
	csrf := http.NewCrossOriginProtection()
	return &side{g: g, listener: l, router: g.adminRouter, gate: g.api, guard: func(r *http.Request) error {
		if err := knownHost(r, names); err != nil {
			return err
		}
		return sameOrigin(r, csrf)
	}}
}

func (g *Gateway) socketSide(l net.Listener) *side {
	return &side{g: g, listener: l, router: g.adminRouter, gate: g.api, guard: func(*http.Request) error { return nil }, patient: true, trusted: true}
}

// admit lets a request in, or says why not. leave ends what it began.
func (s *side) admit(rt route, w *delivery, r *http.Request) (err error) {
	if err := s.guard(r); err != nil {
		return err
	}
	switch {
	case rt.serve == nil:
		return status.Errorf(status.NotFound, "there is no page %s here", exchange.Clip(r.URL.Path))
	case !slices.Contains(rt.methods, r.Method):
		return status.Errorf(status.Method, "%s does not answer %s, only %s", rt.name, exchange.Clip(r.Method), strings.Join(rt.methods, ", "))
	case rt.free:
		return rt.bodyCap(r)
	}
	if !s.g.flight.Enter() {
		return status.Errorf(status.Draining, "the node is shutting down; ask again when it is back")
	}
	places := s.places(rt)
	if err := places.Enter(); err != nil {
		s.g.flight.Leave()
		return err
	}
	w.place = places
	if w.share, err = s.clients.Enter(w.From.Group); err == nil {
		w.Grant, err = s.authorize(rt, r)
	}
	if err == nil {
		err = rt.bodyCap(r)
	}
	if err != nil {
		s.leave(rt, w)
	} else if s.transfers != nil && !rt.upload {
		w.transfers, w.listings = s.transfers, s.g.listings
	}
	return err
}

// leave gives back what admit took.
func (s *side) leave(rt route, w *delivery) {
	if rt.free {
		return
	}
	counted := w.transfers
	w.transfers = nil // a problem that is still to be said has no place to exchange
	if w.transfer.begun {
		w.evicted = !counted.end(&w.transfer)
	} else {
		w.share.Leave()
		w.leavePlace()
	}
	s.g.flight.Leave()
}

// places are those that a route's requests take, so that neither reads nor
// uploads take those of the others.
func (s *side) places(rt route) *limits.Gate {
	if rt.upload {
		return s.g.uploads
	}
	return s.gate
}

// bodyCap refuses a body where there is nothing to do with it.
func (rt route) bodyCap(r *http.Request) error {
	if !rt.streams && r.ContentLength != 0 {
		return status.Errorf(status.BodyCap, "%s takes no request body", rt.name)
	}
	return nil
}

// hasHost refuses an empty Host, which net/http lets pass.
func hasHost(r *http.Request) error {
	if r.Host == "" && r.ProtoAtLeast(1, 1) {
		return status.Errorf(status.BadRequest, "the request has no Host")
	}
	return nil
}

// knownHost refuses names that are not the admin listener's own: behind one a
// web page may hide that points its name at this machine (DNS rebinding).
func knownHost(r *http.Request, names []string) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) }) {
		return nil
	}
	return status.Errorf(status.NotAllowed, "the admin listener is not called %q; use its address, or add the name to admin.hosts", exchange.Clip(r.Host))
}

// sameOrigin refuses what a browser sends on behalf of another site, also when
// it only reads: the answer would be lost to that site, the work would not.
func sameOrigin(r *http.Request, csrf *http.CrossOriginProtection) error {
	site := r.Header.Get("Sec-Fetch-Site")
	cross := site != "" && site != "same-origin" && site != "none"
	if !cross && csrf.Check(r) == nil {
		return nil
	}
	return status.Errorf(status.NotAllowed, "the admin listener does not answer requests that another site's page makes")
}
