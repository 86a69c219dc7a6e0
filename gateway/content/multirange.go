package content

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
)

// mediaParts is the type of an answer that holds several ranges.
const mediaParts = "multipart/byteranges"

// MaxRanges is how many ranges of one request an operator may let be served:
// each one costs up to two chunk groups more than its bytes.
const MaxRanges = 32

// parts is an answer of several ranges (RFC 9110 §14.6 and §15.3.7.2). Before
// each stand a delimiter and a small header, which leave with the first bytes
// that were proved of it: what fails before any is an answer like any other.
type parts struct {
	b        *body
	ranges   []byteRange // two at least, in the order they were asked for
	boundary string      // 64 random bits: content cannot hold it but by chance
}

// split makes the answer one of several parts, or of a single range where that
// is all that is left of them: those that overlap, or have so little between
// them that another part would cost more, become one.
func (b *body) split(asked []byteRange) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	p := &parts{b: b, boundary: hex.EncodeToString(random[:])}
	cost := int64(len(p.opening(1, byteRange{0, 1}))) // the least that any part can
	if p.ranges = coalesce(asked, cost); len(p.ranges) == 1 {
		b.part = p.ranges[0]
		return
	}
	b.parts = p
}

// coalesce joins ranges with less than gap bytes between them. A joined one
// stands where the first of them stood.
func coalesce(ranges []byteRange, gap int64) []byteRange {
	for i := 0; i < len(ranges); i++ {
		for j := i + 1; j < len(ranges); {
			a, b := ranges[i], ranges[j]
			if max(a.start, b.start)-min(a.end, b.end) >= gap {
				j++
				continue
			}
			ranges[i] = byteRange{min(a.start, b.start), max(a.end, b.end)}
			ranges = slices.Delete(ranges, j, j+1)
			j = i + 1 // it may reach what it did not before
		}
	}
	return ranges
}

// opening is what stands before the i-th part.
func (p *parts) opening(i int, r byteRange) string {
	s := fmt.Sprintf("--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n", p.boundary, p.b.contentType, r.of(p.b.size))
	if i > 0 {
		return "\r\n" + s
	}
	return s
}

// closing is what stands after the last part.
func (p *parts) closing() string { return "\r\n--" + p.boundary + "--\r\n" }

// header sets what the answer's header says of the parts. Content-Range is theirs
// alone (RFC 9110 §15.3.7.2).
func (p *parts) header(h http.Header) {
	length := int64(len(p.closing()))
	for i, r := range p.ranges {
		length += int64(len(p.opening(i, r))) + r.end - r.start
	}
	h.Set("Content-Type", mediaParts+"; boundary="+p.boundary)
	h.Set("Content-Length", strconv.FormatInt(length, 10))
}

// send writes the parts, of the content or of memory where that is not nil.
func (p *parts) send(c Content, memory []byte) error {
	for i, r := range p.ranges {
		if err := p.b.copy(&opened{p.b, p.opening(i, r)}, c, memory, r); err != nil {
			return err
		}
	}
	_, err := io.WriteString(p.b, p.closing())
	return err
}

// opened writes a part to its body, and what stands before it with its first
// bytes.
type opened struct {
	b       *body
	opening string
}

func (o *opened) Write(p []byte) (int, error) {
	if o.opening != "" {
		if _, err := io.WriteString(o.b, o.opening); err != nil {
			return 0, err
		}
		o.opening = ""
	}
	return o.b.Write(p)
}
