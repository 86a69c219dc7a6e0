package server

import (
	"net"
	"net/http"
	"strings"

	"allium/gateway/certs"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// onRedirect is the plain http listener beside an https one.
const onRedirect = exchange.OnAdmin << 1

// redirectRoutes are what that listener serves. It shows nothing: it answers ACME, and
// sends browsers to https. What changes something is refused rather than sent
// on, because its token was in the open already. None of it is the API, so it is
// not in openapi.json.
func (s *Server) redirectRoutes() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "proveByHTTP", Name: "acme", Methods: exchange.Reading, Path: certs.ChallengePrefix + "{token}", On: onRedirect, Free: true, Loose: true,
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return s.answerACME(w, r, in.Rest)
			},
		},
		{
			ID: "redirect", Name: "redirect", Methods: exchange.Reading, Path: "/{path}", On: onRedirect, Free: true, Loose: true,
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return s.redirect(w, r) },
		},
	}
}

// redirect sends to the same page over https, if the host is one that the
// certificate is for: a redirect to any Host would be one to anywhere.
func (s *Server) redirect(w *exchange.Response, r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	to := *r.URL
	to.RawQuery = exchange.EscapeQuery(to.RawQuery)
	page := to.RequestURI()
	if !s.certs.Covers(host) || !strings.HasPrefix(page, "/") {
		return status.Errorf(status.NotAllowed, "this node is not called %q; use the name of its certificate, with https", exchange.Clip(r.Host))
	}
	h := w.Header()
	h.Set("Location", "https://"+hostPort(host, s.cfg.TLS.RedirectPort)+page)
	h.Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusPermanentRedirect, "text/plain; charset=utf-8", []byte("this node speaks https\n"))
}

// answerACME proves to the authority that this node has the name, by HTTP-01.
func (s *Server) answerACME(w *exchange.Response, r *http.Request, token string) error {
	a, ok := s.certs.(interface{ Proof(string) (string, bool) })
	if !ok {
		return status.Errorf(status.NotFound, "this node uses no ACME")
	}
	proof, ok := a.Proof(token)
	if !ok {
		return status.Errorf(status.NotFound, "nothing is being proved under this token")
	}
	w.Header().Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, "application/octet-stream", []byte(proof))
}
