package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// admit admits a request, or returns why not. After a nil error the caller calls leave.
func (l *listener) admit(rt route, w *delivery, r *http.Request) (err error) {
	if err := l.checkHost(r); err != nil {
		return err
	}
	if err := checkTarget(r); err != nil {
		return err
	}
	switch {
	case rt.serve == nil:
		return errNoPage(r)
	case !slices.Contains(rt.methods, r.Method):
		return status.Errorf(status.Method, "this path does not accept %s. Send %s",
			exchange.Clip(r.Method), strings.Join(rt.methods, ", "))
	case rt.exempt:
		return rt.bodyCap(r)
	}
	if !l.server.inflight.Enter() {
		return errDraining()
	}
	gate := l.gateOf(rt)
	if err := gate.Enter(); err != nil {
		l.server.inflight.Leave()
		return err
	}
	w.places.gate = gate
	if err = l.takeToken(w, r); err == nil {
		w.Grant, err = l.authorize(rt, &w.Response, r)
	}
	if err == nil {
		err = rt.bodyCap(r)
	}
	if err != nil {
		l.leave(rt, w)
	} else if l.transfers != nil && !rt.upload {
		w.places.transfers, w.places.listings = l.transfers, l.server.bounds.listings
	}
	return err
}

// errNoPage returns the error of a path without a route.
func errNoPage(r *http.Request) error {
	return status.Errorf(status.NotFound, "cannot find the page %s. Check the URL", exchange.Clip(r.URL.Path))
}

// leave releases everything that admit took.
func (l *listener) leave(rt route, w *delivery) {
	if rt.exempt {
		return
	}
	w.places.transfers = nil // a problem that is sent later is not a transfer
	if w.places.transfer.Counted() {
		w.places.evicted = !w.places.transfer.End()
	} else {
		w.places.share.Leave()
		w.places.leaveGate()
	}
	l.server.inflight.Leave()
}

// gateOf returns the gate of a route's requests. Uploads and streams of events have gates of
// their own, so that they and other requests never take each other's places.
func (l *listener) gateOf(rt route) *limits.Gate {
	switch {
	case rt.upload:
		return l.server.bounds.uploads
	case rt.events:
		return l.server.bounds.events.gate
	}
	return l.gate
}

// bodyCap refuses a body on a route that takes none.
func (rt route) bodyCap(r *http.Request) error {
	if !rt.takesBody && r.ContentLength != 0 {
		return status.Errorf(status.BodyCap,
			"cannot accept a body: the route %s takes none. Send the request without one",
			rt.name)
	}
	return nil
}

// anyHost accepts every host. The socket uses it, because its clients are the node's own user.
func anyHost(*http.Request) error { return nil }

// ownHostsOnly returns a check that refuses hosts other than names, and requests that another
// site's page makes.
func ownHostsOnly(names []string) func(*http.Request) error {
	csrf := http.NewCrossOriginProtection()
	return func(r *http.Request) error {
		if err := knownHost(r, names); err != nil {
			return err
		}
		return sameOrigin(r, csrf)
	}
}

// hasHost refuses an empty Host, which net/http accepts.
func hasHost(r *http.Request) error {
	if r.Host == "" && r.ProtoAtLeast(1, 1) {
		return status.Errorf(status.BadRequest, "the header Host is empty. Send the name of this node")
	}
	return nil
}

// knownHost refuses hosts that are not the admin listener's own. A web page could point its
// own name at this machine (DNS rebinding).
func knownHost(r *http.Request, names []string) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) }) {
		return nil
	}
	return status.Errorf(status.NotAllowed,
		"the admin listener refused the request: its name is not %q. Use its address, or add the name to admin.hosts",
		exchange.Clip(r.Host))
}

// sameOrigin refuses requests that a browser sends for another site's page, reads too: the page
// could not see the answer, but the node would do the work. csrf lets every read pass, so a read
// needs an Origin of this listener if it has one.
func sameOrigin(r *http.Request, csrf *http.CrossOriginProtection) error {
	site := r.Header.Get("Sec-Fetch-Site")
	cross := site != "" && site != "same-origin" && site != "none"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		cross = cross || foreignOrigin(r)
	}
	if !cross && csrf.Check(r) == nil {
		return nil
	}
	return status.Errorf(status.NotAllowed,
		"the admin listener refused the request: a page of another site made it. Open the admin page directly")
}

// foreignOrigin reports whether a request names an Origin, and its host is not the request's.
func foreignOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}
