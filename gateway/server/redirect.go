package server

import (
	"net"
	"net/http"
	"strings"

	"allium/gateway/certs"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// onRedirect is the plain HTTP listener beside an HTTPS one.
const onRedirect = exchange.OnSites << 1

// redirectRoutes returns the routes of the redirect listener. It answers ACME and redirects
// browsers to HTTPS. It refuses mutations instead of redirecting them, because their token was
// already sent in the clear. The routes are no part of the API, so openapi.json omits them.
func (s *Server) redirectRoutes() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "proveByHTTP", Name: "acme", Methods: exchange.Reading, Path: certs.ChallengePrefix + "{token}",
			On: onRedirect, Exempt: true, AnyQuery: true,
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return answerACME(s.certs, w, r, in.Rest)
			},
		},
		{
			ID: "redirect", Name: "redirect", Methods: exchange.Reading, Path: "/{path}",
			On: onRedirect, Exempt: true, AnyQuery: true,
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return s.redirect(w, r) },
		},
	}
}

// redirect redirects to the same page over HTTPS. It refuses a host that the certificate does
// not cover, because a redirect to any Host could lead anywhere.
func (s *Server) redirect(w *exchange.Response, r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	to := *r.URL
	to.RawQuery = exchange.EscapeQuery(to.RawQuery)
	page := to.RequestURI()
	if _, below := cutPrefix(to.EscapedPath(), w.Prefix); !below {
		page = w.Prefix + page
	}
	if !s.certs.Covers(r.Context(), host) || !strings.HasPrefix(page, "/") {
		return status.Errorf(status.NotAllowed,
			"cannot redirect to https: this node's certificate does not cover %q. Use the certificate's name, "+
				"with https",
			exchange.Clip(r.Host))
	}
	h := w.Header()
	h.Set("Location", "https://"+hostPort(host, s.cfg.TLS.RedirectPort)+page)
	h.Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusPermanentRedirect, "text/plain; charset=utf-8", []byte("this node speaks https\n"))
}

// answerACME answers an HTTP-01 challenge, which proves to the authority that this node has the
// name.
func answerACME(source certs.Source, w *exchange.Response, r *http.Request, token string) error {
	a, ok := source.(interface{ Proof(string) (string, bool) })
	if !ok {
		return status.Errorf(status.NotFound, "cannot answer the challenge: this node does not use ACME")
	}
	proof, ok := a.Proof(token)
	if !ok {
		return status.Errorf(status.NotFound, "cannot answer the challenge: its token is unknown")
	}
	w.Header().Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, "application/octet-stream", []byte(proof))
}
