package weblink

import (
	"net/http"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Endpoints returns the route of links.
func (s *Set) Endpoints() []exchange.Endpoint {
	bytes := exchange.Payload{Media: exchange.MediaAny}
	return []exchange.Endpoint{{
		ID: "link", Name: "link", Methods: exchange.Reading, Path: pathPrefix + "{path}",
		On: exchange.OnPublic, AnyQuery: true, ErrorPages: true,
		Doc: "Shows what `allium share --web` shares. {path} is the secret of a link and a path below it.",
		More: "A page shows a file or a directory, and the bytes of files lie below it by their names. " +
			"A wrong secret is not_found; many of them are rate_limit. A link that has expired or is used up is " +
			"gone. Neither pages nor headers tell addresses.",
		Headers: []string{
			"Accept", "Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
			"Cache-Control", "Request-Timeout",
		},
		Answers: []exchange.Reply{
			{Code: http.StatusOK, Payload: bytes, Headers: linkHeaders, Doc: "a file, or a page"},
			{
				Code: http.StatusPartialContent, Payload: bytes,
				Headers: append([]string{"Content-Range"}, linkHeaders...),
				Doc:     "a range of a file, or several",
			},
			{Code: http.StatusNotModified, Headers: linkHeaders, Doc: "the client's copy is current"},
			{
				Code:    http.StatusMovedPermanently,
				Headers: []string{"Location", "Cache-Control", "Set-Cookie", "X-Robots-Tag"},
				Doc:     "the URL of a directory with its slash, or of a link's target",
			},
		},
		ErrorHeaders: []string{"Set-Cookie", "X-Robots-Tag"},
		Fails: []status.Outcome{
			status.NotAllowed, status.NotFound, status.Gone, status.Precondition, status.BadRange, status.Denied,
			status.Corrupt, status.Upstream, status.BreakerOpen, status.NotReady, status.Amnesia, status.TransportDown,
			status.NoBootstrap, status.Timeout, status.HopExceeded, status.RateLimit,
		},
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error { return s.serve(w, r, in.Rest) },
	}}
}

var linkHeaders = []string{
	"ETag", "Last-Modified", "Cache-Control", "Vary", "Accept-Ranges", "Content-Security-Policy", "Content-Encoding",
	"Cross-Origin-Resource-Policy", "Content-Disposition", "Set-Cookie", "X-Robots-Tag",
}

// serve answers a request below pathPrefix.
func (s *Set) serve(w *exchange.Response, r *http.Request, rest string) error {
	if err := s.guesses.allowed(w.From.Group); err != nil {
		return err
	}
	secret, path, slash := strings.Cut(rest, "/")
	l := s.find(secret)
	switch {
	case l == nil:
		s.guesses.count(w.From.Group)
		s.wrong.Inc()
		return errGuessed()
	case !slash:
		w.Caching = "private, no-store"
		return w.Redirect(r, http.StatusMovedPermanently, l.path())
	}
	return l.serve(w, r, path)
}
