// Package byterange parses the ranges of bytes that a request over HTTP asks for.
package byterange

import (
	"fmt"
	"math"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Range is the bytes [Start, End) of a representation.
type Range struct{ Start, End int64 }

// Len returns the number of bytes.
func (r Range) Len() int64 { return r.End - r.Start }

// Of returns the Content-Range of r in a representation of size bytes.
func (r Range) Of(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.Start, r.End-1, size)
}

// Parse parses a Range header (RFC 9110 §14.2) for a representation of size bytes. It
// appends the ranges to into, in the order of the header.
//
// It appends nothing if there is no range to serve: the header is empty, or its unit is not
// bytes and is therefore ignored. It skips a range that selects nothing if another range
// selects something.
//
// It returns bad_range if the header is malformed, if no range selects anything, if there are
// more than limit ranges (one is always allowed), or if the ranges together are longer than
// the representation.
//
// net/http's parser does not fit: it answers "bytes=-0" with 206, compares units
// case-sensitively, and refuses numbers above 63 bits instead of clamping them.
func Parse(into []Range, header string, size int64, limit int) ([]Range, error) {
	unit, set, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return nil, nil
	}
	ranges, asked, left, whole := into, 0, size, false
	for spec := range strings.SplitSeq(set, ",") {
		if spec = strings.Trim(spec, " \t"); spec == "" {
			continue // RFC 9110 §5.6.1 lets lists have empty elements
		}
		switch asked++; {
		case asked > 1 && limit <= 1:
			return nil, status.Errorf(status.BadRange,
				"cannot serve Range %q: it has several ranges. Send one request for each", exchange.Clip(header))
		case asked > 1 && asked > limit:
			return nil, status.Errorf(status.BadRange,
				"cannot serve Range %q: it has more than %d ranges. Split them over several requests",
				exchange.Clip(header), limit)
		}
		rng, all, err := parseSpec(spec, size)
		switch n := rng.Len(); {
		case err != nil:
			return nil, err
		case n <= 0:
			whole = whole || all
		case n > left:
			return nil, status.Errorf(status.BadRange,
				"cannot serve Range %q: its ranges add up to more than the object's %d bytes. Request the whole object",
				exchange.Clip(header), size)
		default:
			left -= n
			ranges = append(ranges, rng)
		}
	}
	switch {
	case asked == 0:
		return nil, status.Errorf(status.BadRange,
			"cannot read Range %q: it has no range. Send bytes=FIRST-LAST", exchange.Clip(header))
	case whole:
		return nil, nil
	case len(ranges) == len(into):
		return nil, status.Errorf(status.BadRange,
			"cannot serve Range %q: it starts after the object's end. The object has %d bytes",
			exchange.Clip(header), size)
	}
	return ranges, nil
}

// parseSpec parses one range and clamps it to size bytes. A range that selects nothing has
// start >= end. whole is true if the representation is empty: such a request gets the whole answer, because
// Content-Range cannot express an empty range, and caches ask for the first bytes of what they do not know.
func parseSpec(spec string, size int64) (rng Range, whole bool, err error) {
	first, last, found := strings.Cut(spec, "-")
	from, fromOK := parsePos(first)
	to, toOK := parsePos(last)
	switch {
	case !found, !fromOK && first != "", !toOK && last != "", first == "" && last == "":
		return Range{}, false, status.Errorf(status.BadRange,
			"cannot read the range %q: it is not FIRST-LAST, FIRST- or -COUNT. Send bytes=FIRST-LAST",
			exchange.Clip(spec))
	case first == "":
		return Range{size - min(to, size), size}, size == 0, nil
	case last == "":
		return Range{from, size}, size == 0, nil
	case to < from:
		return Range{}, false, status.Errorf(status.BadRange,
			"cannot read the range %q: it ends before it begins. Send bytes=FIRST-LAST", exchange.Clip(spec))
	}
	return Range{from, min(to, size-1) + 1}, size == 0, nil // clamp before adding: to may be MaxInt64
}

// parsePos parses a run of digits. It clamps a number above 63 bits to the largest one,
// because such a position means "to the end".
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
