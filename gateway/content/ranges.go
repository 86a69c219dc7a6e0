package content

import (
	"fmt"
	"math"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// byteRange is bytes [start, end) of a representation.
type byteRange struct{ start, end int64 }

// of is the Content-Range of it in size bytes.
func (r byteRange) of(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.start, r.end-1, size)
}

// parseRanges reads a Range header (RFC 9110 §14.2) against a representation of
// size bytes, and appends what it asks for to into, in its order. Ranges that
// select nothing are left out where others do. Nothing is appended when there
// is no range to serve: the header is empty or its unit is not bytes, which is
// ignored. Everything else is bad_range: what is no range, what selects nothing,
// more than most ranges (one is always allowed), and several that together are
// longer than the representation.
//
// net/http's own parser is not used: it answers "bytes=-0" with 206, takes
// units for case-sensitive, and refuses numbers over 63 bits instead of
// clamping them.
func parseRanges(into []byteRange, header string, size int64, most int) ([]byteRange, error) {
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
		case asked > 1 && most <= 1:
			return nil, status.Errorf(status.BadRange, "one range at a time, please: %q asks for several", exchange.Clip(header))
		case asked > 1 && asked > most:
			return nil, status.Errorf(status.BadRange, "%q asks for more than %d ranges; ask for the rest in another request", exchange.Clip(header), most)
		}
		rng, all, err := parseSpec(spec, size)
		switch n := rng.end - rng.start; {
		case err != nil:
			return nil, err
		case n <= 0:
			whole = whole || all
		case n > left:
			return nil, status.Errorf(status.BadRange, "the ranges of %q are longer together than the %d bytes there are; ask for the whole", exchange.Clip(header), size)
		default:
			left -= n
			ranges = append(ranges, rng)
		}
	}
	switch {
	case asked == 0:
		return nil, status.Errorf(status.BadRange, "%q is not a range; write bytes=first-last", exchange.Clip(header))
	case whole:
		return nil, nil
	case len(ranges) == len(into):
		return nil, status.Errorf(status.BadRange, "%q selects nothing of %d bytes", exchange.Clip(header), size)
	}
	return ranges, nil
}

// parseSpec reads one range and clamps it to size bytes. What selects nothing
// does not start before it ends; whole says that it is all the same the whole of
// nothing, which no Content-Range can say.
func parseSpec(spec string, size int64) (rng byteRange, whole bool, err error) {
	first, last, found := strings.Cut(spec, "-")
	from, fromOK := parsePos(first)
	to, toOK := parsePos(last)
	switch {
	case !found, !fromOK && first != "", !toOK && last != "", first == "" && last == "":
		return byteRange{}, false, status.Errorf(status.BadRange, "%q is not a range; write bytes=first-last", exchange.Clip(spec))
	case first == "":
		return byteRange{size - min(to, size), size}, size == 0 && to > 0, nil
	case last == "":
		return byteRange{from, size}, false, nil
	case to < from:
		return byteRange{}, false, status.Errorf(status.BadRange, "%q ends before it begins", exchange.Clip(spec))
	}
	return byteRange{from, min(to, size-1) + 1}, false, nil // size−1 first: to may be the largest number
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
