package exchange

import (
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Accepted yields the media types of an Accept header, or the codings of an
// Accept-Encoding, in lower case and with their weights from 0 to 1 (RFC 9110 §12.4.2).
// lines are the header's values. Accepted skips malformed elements.
func Accepted(lines []string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for part := range strings.SplitSeq(strings.Join(lines, ","), ",") {
			t, params, err := mime.ParseMediaType(part)
			if err == nil && !yield(t, quality(params["q"])) {
				return
			}
		}
	}
}

// quality parses a weight. No weight is 1, a malformed one is 0.
func quality(s string) float64 {
	if s == "" {
		return 1
	}
	q, err := strconv.ParseFloat(s, 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}

// AcceptsCoding reports whether the client takes a content coding, such as gzip (RFC 9110 §12.5.3).
func AcceptsCoding(r *http.Request, coding string) bool {
	other := false
	for name, q := range Accepted(r.Header["Accept-Encoding"]) {
		switch name {
		case coding:
			return q > 0
		case "*":
			other = q > 0
		}
	}
	return other
}
