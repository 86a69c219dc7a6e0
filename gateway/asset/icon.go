package asset

import (
	_ "embed" // the icon
	"net/http"

	"allium/gateway/exchange"
)

//go:embed icon.svg
var iconSource []byte

// IconEndpoint returns the route of the icon that browsers request.
func IconEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "favicon", Name: "favicon", Methods: exchange.Reading, Path: "/favicon.ico",
		On: exchange.OnEvery, AnyQuery: true,
		Doc: "Returns the icon that browsers request.",
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Payload: exchange.Payload{Media: "image/svg+xml"},
			Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the icon",
		}},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return icon(w, r) },
	}
}

// icon serves the icon.
func icon(w *exchange.Response, r *http.Request) error {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Content-Security-Policy", NoPolicy)
	return w.Send(r, http.StatusOK, "image/svg+xml", iconSource)
}
