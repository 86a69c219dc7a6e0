package exchange

import (
	"iter"
	"mime"
	"strconv"
	"strings"
)

// Accepted yields the media types that the lines of an Accept name, or the codings
// of an Accept-Encoding, in lower case and with the weight of each (RFC 9110
// §12.4.2). What cannot be read is left out.
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

// quality is the weight of an element of Accept, 1 where none is given.
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
