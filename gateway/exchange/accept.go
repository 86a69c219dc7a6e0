package exchange

import (
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Accepted yields the media types that a request's Accept names, with the weight
// of each (RFC 9110 §12.5.1). What cannot be read is left out.
func Accepted(r *http.Request) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
			t, params, err := mime.ParseMediaType(part)
			if err == nil && !yield(t, Quality(params["q"])) {
				return
			}
		}
	}
}

// Quality is the weight of an element of Accept, 1 where none is given.
func Quality(s string) float64 {
	if s == "" {
		return 1
	}
	q, err := strconv.ParseFloat(s, 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}
