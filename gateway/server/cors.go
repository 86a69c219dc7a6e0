package server

import (
	"net/http"
	"net/url"
	"slices"

	"allium/protocols/status"
)

// exposed lists the headers that a page of another origin may read.
const exposed = "Accept-Ranges, Content-Length, Content-Location, Content-Range, ETag, Link, Retry-After, " +
	"X-Corr-ID, X-Reason"

// checkOrigins returns bad_request for a value that no browser sends as an origin.
func checkOrigins(origins []string) error {
	for _, o := range origins {
		u, err := url.Parse(o)
		valid := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Scheme+"://"+u.Host == o
		if o != "*" && !valid {
			return status.Errorf(status.BadRequest,
				"gateway.cors_origins contains %q. Set it to origins such as https://app.example.org, or to *", o)
		}
	}
	return nil
}

// allowOrigin lets pages of the configured origins read the answer. No preflight is answered,
// so such a page can send nothing that needs one, a capability for instance.
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
