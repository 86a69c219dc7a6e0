package exchange

import (
	"net/http"
	"slices"

	"allium/internal/ipgroup"
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

// DecideOrigin is AllowOrigin with the origins of a handler. They replace those of the listener for this answer.
func DecideOrigin(h http.Header, origins []string, asking string) bool {
	h["Access-Control-Allow-Origin"] = nil // net/http sends nothing for it
	return AllowOrigin(h, origins, asking)
}

// AllowInternet lets pages of every origin read an answer if the client came over the Internet. Anyone on the Internet
// can ask for the same bytes without a page. A client of the local network may reach what others cannot, and a page
// that it opens must not become their way in (docs/adr/0036-open-proofs.md).
func AllowInternet(w *Response) {
	if from := w.From.Addr.Unmap(); from.IsValid() && ipgroup.Public(from) {
		DecideOrigin(w.Header(), anyOrigin, "")
	}
}

// OriginDecided reports whether DecideOrigin was called for an answer.
func OriginDecided(h http.Header) bool {
	_, ok := h["Access-Control-Allow-Origin"]
	return ok
}
