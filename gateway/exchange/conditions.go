package exchange

import (
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// ETag returns the strong ETag of an object: its address in quotes (SPEC §9).
func ETag(root b3.Root) string {
	tag := make([]byte, 0, 2+len("b3:")+2*b3.Size)
	return string(append(hex.AppendEncode(append(tag, `"b3:`...), root[:]), '"'))
}

// Evaluate evaluates If-Match and If-None-Match (RFC 9110 §13.2.2) for a representation that
// exists. It returns OK, NotModified or Precondition. It ignores If-Modified-Since and
// If-Unmodified-Since, because what it judges has no Last-Modified.
func Evaluate(r *http.Request, etag string) status.Outcome {
	if im := r.Header.Values("If-Match"); len(im) > 0 && !MatchesTag(im, etag, true) {
		return status.Precondition
	}
	if inm := r.Header.Values("If-None-Match"); len(inm) > 0 && MatchesTag(inm, etag, false) {
		return status.NotModified // callers evaluate GET and HEAD alone
	}
	return status.OK
}

// LongAgo is the Last-Modified of content that never changes. It is later than the first date of a zip or a FAT file
// system, and earlier than any content here.
var LongAgo = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// EvaluateDated evaluates as Evaluate does, If-Unmodified-Since where there is no If-Match, and If-Modified-Since where
// there is no If-None-Match. modified is the Last-Modified of the representation in whole seconds. If it is zero, there
// is none, and both dates are ignored.
func EvaluateDated(r *http.Request, etag string, modified time.Time) status.Outcome {
	if modified.IsZero() {
		return Evaluate(r, etag)
	}
	if len(r.Header["If-Match"]) == 0 {
		if at, ok := dateOf(r, "If-Unmodified-Since"); ok && modified.After(at) {
			return status.Precondition
		}
	}
	outcome := Evaluate(r, etag)
	if outcome == status.OK && len(r.Header["If-None-Match"]) == 0 {
		if at, ok := dateOf(r, "If-Modified-Since"); ok && !modified.After(at) {
			return status.NotModified
		}
	}
	return outcome
}

// dateOf returns the date of a header. ok is false if there is none, or several, which RFC 9110 §13.1.3 ignores.
func dateOf(r *http.Request, name string) (at time.Time, ok bool) {
	values := r.Header[name]
	if len(values) != 1 {
		return at, false
	}
	at, err := http.ParseTime(values[0])
	return at, err == nil
}

// PreconditionFailed returns the error of a request for which EvaluateDated returned Precondition.
func PreconditionFailed(r *http.Request, etag string, modified time.Time) error {
	if len(r.Header["If-Match"]) > 0 {
		return IfMatchFailed(etag)
	}
	return status.Errorf(status.Precondition, "If-Unmodified-Since does not hold: the content is of %s. "+
		"Get it again without that header", modified.UTC().Format(http.TimeFormat))
}

// IfMatchFailed returns the error of a request whose If-Match does not name etag, the current
// one.
func IfMatchFailed(etag string) error {
	return status.Errorf(status.Precondition,
		"If-Match does not match: the current ETag is %s. Send that ETag, or leave out If-Match", etag)
}

// SendTagged sends a whole answer with an ETag, or what the conditions of the request ask for in its place: 304, or
// precondition.
func SendTagged(w *Response, r *http.Request, etag, contentType string, body []byte) error {
	w.Header().Set("ETag", etag)
	switch Evaluate(r, etag) {
	case status.Precondition:
		return IfMatchFailed(etag)
	case status.NotModified:
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return w.Send(r, http.StatusOK, contentType, body)
}

// KnownFresh reports whether the request shows that the client has the object. Such a request
// needs no lookup, because the bytes of an address never change.
func KnownFresh(r *http.Request, etag string) bool {
	inm := r.Header.Values("If-None-Match")
	return len(r.Header["If-Match"]) == 0 && len(r.Header["If-Unmodified-Since"]) == 0 && len(inm) > 0 &&
		!strings.Contains(strings.Join(inm, ","), "*") && MatchesTag(inm, etag, false)
}

// RangeApplies reports whether If-Range permits the range: it is absent, strongly matches etag, or is the date
// modified, which is zero for a representation without a date.
func RangeApplies(r *http.Request, etag string, modified time.Time) bool {
	ir := r.Header.Values("If-Range")
	if len(ir) != 1 {
		return len(ir) == 0
	}
	if at, err := http.ParseTime(ir[0]); err == nil {
		return !modified.IsZero() && at.Equal(modified)
	}
	return strings.TrimSpace(ir[0]) == etag && !strings.HasPrefix(etag, "W/")
}

// notInTags are the characters that an entity tag cannot contain between its quotes
// (RFC 9110 §8.8.3).
const notInTags = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\v\f\r\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f \x7f"

// MatchesTag reports whether a list of entity tags contains etag. A strong comparison ignores
// weak tags. "*" matches every tag. The list ends at its first malformed element.
func MatchesTag(headers []string, etag string, strong bool) bool {
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
