package server

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// admit lets a request in, or says why not. leave ends what it began.
func (l *listener) admit(rt route, w *delivery, r *http.Request) (err error) {
	if err := l.guard(r); err != nil {
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
	if !l.server.inflight.Enter() {
		return errDraining()
	}
	places := l.places(rt)
	if err := places.Enter(); err != nil {
		l.server.inflight.Leave()
		return err
	}
	w.place = places
	if w.share, err = l.clients.Enter(w.From.Group); err == nil {
		w.Grant, err = l.authorize(rt, r)
	}
	if err == nil {
		err = rt.bodyCap(r)
	}
	if err != nil {
		l.leave(rt, w)
	} else if l.transfers != nil && !rt.upload {
		w.transfers, w.listings = l.transfers, l.server.bounds.listings
	}
	return err
}

// leave gives back what admit took.
func (l *listener) leave(rt route, w *delivery) {
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
	l.server.inflight.Leave()
}

// places are those that a route's requests take, so that neither reads nor
// uploads take those of the others.
func (l *listener) places(rt route) *limits.Gate {
	if rt.upload {
		return l.server.bounds.uploads
	}
	return l.gate
}

// bodyCap refuses a body where there is nothing to do with it.
func (rt route) bodyCap(r *http.Request) error {
	if !rt.streams && r.ContentLength != 0 {
		return status.Errorf(status.BodyCap, "%s takes no request body", rt.name)
	}
	return nil
}

// anyHost is the guard of a listener whose clients are known to be the node's own
// user.
func anyHost(*http.Request) error { return nil }

// ownPages refuses requests for other hosts than names, and those that another
// site's page makes.
func ownPages(names []string) func(*http.Request) error {
	csrf := http.NewCrossOriginProtection()
	return func(r *http.Request) error {
		if err := knownHost(r, names); err != nil {
			return err
		}
		return sameOrigin(r, csrf)
	}
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
