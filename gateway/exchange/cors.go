package exchange

import (
	"net/http"
	"slices"
)

// exposed lists the headers that a page of another origin may read.
var exposed = []string{"Accept-Ranges, Content-Length, Content-Location, Content-Range, ETag, Link, Retry-After, " +
	"X-Corr-ID, X-Reason"}

// anyOrigin is the value of a header that nobody modifies, as exposed is.
var anyOrigin = []string{"*"}

// AllowOrigin lets pages of the origins read an answer, and reports whether they let the page that asks. No
// preflight is answered, so such a page can send nothing that needs one, a capability for instance.
func AllowOrigin(h http.Header, origins []string, asking string) bool {
	switch {
	case len(origins) == 0:
		return false
	case slices.Contains(origins, "*"):
		h["Access-Control-Allow-Origin"] = anyOrigin
	default:
		h.Add("Vary", "Origin")
		if !slices.Contains(origins, asking) {
			return false
		}
		h.Set("Access-Control-Allow-Origin", asking)
	}
	h["Access-Control-Expose-Headers"] = exposed
	return true
}

// DecideOrigin is AllowOrigin for a handler with origins of its own: those of the listener do not count for the
// answer then.
func DecideOrigin(h http.Header, origins []string, asking string) bool {
	h["Access-Control-Allow-Origin"] = nil // net/http sends nothing for it
	return AllowOrigin(h, origins, asking)
}

// OriginDecided reports whether DecideOrigin was called for an answer.
func OriginDecided(h http.Header) bool {
	_, ok := h["Access-Control-Allow-Origin"]
	return ok
}
