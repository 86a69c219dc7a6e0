package server

import (
	"net/http"
	"net/url"
	"slices"

	"allium/protocols/status"
)

// exposed are the headers that a page of another origin may read.
const exposed = "Accept-Ranges, Content-Length, Content-Location, Content-Range, ETag, Link, Retry-After, X-Corr-ID, X-Reason"

// checkOrigins refuses what no browser sends as an origin.
func checkOrigins(origins []string) error {
	for _, o := range origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			return status.Errorf(status.BadRequest, "gateway.cors_origins holds %q, want origins such as https://app.example.org, or *", o)
		}
	}
	return nil
}

// allowOrigin lets a page of one of the configured origins read an answer. That
// is all: no preflight is answered, so another origin's page can send nothing
// that needs one, a capability among it.
func allowOrigin(h http.Header, origins []string, asking string) {
	switch {
	case len(origins) == 0:
		return
	case slices.Contains(origins, "*"):
		asking = "*"
	default:
		h.Add("Vary", "Origin")
		if !slices.Contains(origins, asking) {
			return
		}
	}
	h.Set("Access-Control-Allow-Origin", asking)
	h.Set("Access-Control-Expose-Headers", exposed)
}
