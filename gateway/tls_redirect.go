package gateway

import (
	"net"
	"net/http"
	"strings"

	"allium/protocols/status"
)

// onRedirect is the plain http listener beside an https one.
const onRedirect = onAdmin << 1

// redirectRouter serves that listener. It shows nothing: it answers ACME, and
// sends browsers to https. What changes something is refused rather than sent
// on, because its token was in the open already. None of it is the API, so it is
// not in openapi.json.
var redirectRouter = newRouter([]endpoint{
	{
		id: "proveByHTTP", name: "acme", methods: reading, path: acmePrefix + "{token}", on: onRedirect, free: true, loose: true,
		serve: func(g *Gateway, w *response, r *http.Request, in input) error { return g.answerACME(w, r, in.rest) },
	},
	{
		id: "redirect", name: "redirect", methods: reading, path: "/{path}", on: onRedirect, free: true, loose: true,
		serve: func(g *Gateway, w *response, r *http.Request, _ input) error { return g.redirect(w, r) },
	},
}, onRedirect)

func (g *Gateway) redirectSide(l net.Listener) *side {
	return &side{g: g, listener: l, router: redirectRouter, gate: g.inflight, guard: hasHost, discreet: true}
}

// redirect sends to the same page over https, if the host is one that the
// certificate is for: a redirect to any Host would be one to anywhere.
func (g *Gateway) redirect(w *response, r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	to := *r.URL
	to.RawQuery = escapeQuery(to.RawQuery)
	page := to.RequestURI()
	if !g.certs.covers(host) || !strings.HasPrefix(page, "/") {
		return status.Errorf(status.NotAllowed, "this node is not called %q; use the name of its certificate, with https", clip(r.Host))
	}
	h := w.Header()
	h.Set("Location", "https://"+hostPort(host, g.httpsPort)+page)
	h.Set("Cache-Control", "no-store")
	return w.send(r, http.StatusPermanentRedirect, "text/plain; charset=utf-8", []byte("this node speaks https\n"))
}

// answerACME proves to the authority that this node has the name, by HTTP-01.
func (g *Gateway) answerACME(w *response, r *http.Request, token string) error {
	a, ok := g.certs.(*acmeCerts)
	if !ok {
		return status.Errorf(status.NotFound, "this node uses no ACME")
	}
	proof, ok := a.proof(token)
	if !ok {
		return status.Errorf(status.NotFound, "nothing is being proved under this token")
	}
	w.Header().Set("Cache-Control", "no-store")
	return w.send(r, http.StatusOK, "application/octet-stream", []byte(proof))
}
