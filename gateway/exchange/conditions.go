package exchange

import (
	"encoding/hex"
	"net/http"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// ETag is the strong validator of an object: its address (SPEC §9).
func ETag(root b3.Root) string {
	tag := make([]byte, 0, 2+len("b3:")+2*b3.Size)
	return string(append(hex.AppendEncode(append(tag, `"b3:`...), root[:]), '"'))
}

// Evaluate applies If-Match and If-None-Match (RFC 9110 §13.2.2) to a
// representation that exists. The dates of the other two headers compare with
// Last-Modified, which is never sent, so they are ignored.
func Evaluate(r *http.Request, etag string) status.Outcome {
	if im := r.Header.Values("If-Match"); len(im) > 0 && !Listed(im, etag, true) {
		return status.Precondition
	}
	if inm := r.Header.Values("If-None-Match"); len(inm) > 0 && Listed(inm, etag, false) {
		return status.NotModified // only GET and HEAD come here
	}
	return status.OK
}

// KnownFresh reports whether the request itself shows that the client has the
// object, so that it need not be found: content under an address never changes.
func KnownFresh(r *http.Request, etag string) bool {
	inm := r.Header.Values("If-None-Match")
	return len(r.Header.Values("If-Match")) == 0 && len(inm) > 0 &&
		!strings.Contains(strings.Join(inm, ","), "*") && Listed(inm, etag, false)
}

// RangeApplies evaluates If-Range: only a strong match lets the range stand. A
// date never matches.
func RangeApplies(r *http.Request, etag string) bool {
	ir := r.Header.Values("If-Range")
	return len(ir) == 0 || len(ir) == 1 && strings.TrimSpace(ir[0]) == etag && !strings.HasPrefix(etag, "W/")
}

// notInTags is what an entity tag cannot hold, beside its quotes (RFC 9110 §8.8.3).
const notInTags = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f \x7f"

// Listed reports whether a list of entity tags holds etag. A strong comparison
// finds no weak tags; "*" is every tag. What cannot be parsed ends the list.
func Listed(headers []string, etag string, strong bool) bool {
	list := strings.Join(headers, ",")
	weak := strings.HasPrefix(etag, "W/")
	opaque := strings.TrimPrefix(etag, "W/")
	for {
		list = strings.TrimLeft(list, " \t,")
		if strings.HasPrefix(list, "*") {
			return true
		}
		rest, isWeak := strings.CutPrefix(list, "W/")
		if !strings.HasPrefix(rest, `"`) {
			return false
		}
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 || strings.ContainsAny(rest[1:end+1], notInTags) {
			return false
		}
		if tag := rest[:end+2]; tag == opaque && (!strong || !weak && !isWeak) {
			return true
		}
		list = rest[end+2:]
	}
}
