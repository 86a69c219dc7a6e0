package gateway

import (
	"math"
	"strings"

	"allium/protocols/status"
)

// byteRange is bytes [start, end) of a representation.
type byteRange struct{ start, end int64 }

// parseRange reads a Range header (RFC 9110 §14.2) against a representation of
// size bytes. ok is false when there is no range to serve: the header is empty
// or its unit is not bytes, which is ignored. Everything else that is not one
// satisfiable range, several ranges included, is bad_range.
//
// net/http's own parser is not used: it answers "bytes=-0" with 206, takes
// units for case-sensitive, and refuses numbers over 63 bits instead of
// clamping them.
func parseRange(header string, size int64) (rng byteRange, ok bool, err error) {
	unit, set, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return byteRange{}, false, nil
	}
	var spec string
	for s := range strings.SplitSeq(set, ",") {
		switch s = strings.Trim(s, " \t"); {
		case s == "": // RFC 9110 §5.6.1 lets lists have empty elements
		case spec != "":
			return byteRange{}, false, status.Errorf(status.BadRange, "one range at a time, please: %q asks for several", clip(header))
		default:
			spec = s
		}
	}
	first, last, found := strings.Cut(spec, "-")
	from, fromOK := parsePos(first)
	to, toOK := parsePos(last)
	switch {
	case !found, !fromOK && first != "", !toOK && last != "", first == "" && last == "":
		return byteRange{}, false, status.Errorf(status.BadRange, "%q is not a range; write bytes=first-last", clip(header))
	case first == "" && size == 0 && to > 0:
		return byteRange{}, false, nil // the whole of nothing, which no Content-Range can say
	case first == "":
		rng = byteRange{size - min(to, size), size}
	case last == "":
		rng = byteRange{from, size}
	case to < from:
		return byteRange{}, false, status.Errorf(status.BadRange, "%q ends before it begins", clip(header))
	default:
		rng = byteRange{from, min(to, size-1) + 1} // size−1 first: to may be the largest number
	}
	if rng.start >= rng.end {
		return byteRange{}, false, status.Errorf(status.BadRange, "%q selects nothing of %d bytes", clip(header), size)
	}
	return rng, true, nil
}

// parsePos reads a run of digits; what does not fit 63 bits is clamped, because
// it means "as far as there is".
func parsePos(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		d := int64(s[i]) - '0'
		if d < 0 || d > 9 {
			return 0, false
		}
		if n > (math.MaxInt64-d)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + d
	}
	return n, true
}
