package content

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"allium/gateway/content/byterange"
)

// mediaByteranges is the media type of an answer with several ranges.
const mediaByteranges = "multipart/byteranges"

// MaxRanges is the highest value of gateway.multi_range. Each range of a request costs up to
// two chunk groups more than its bytes.
const MaxRanges = 32

// multipart is an answer with several ranges (RFC 9110 §14.6 and §15.3.7.2). A delimiter and
// a small header precede each part. They are sent with the part's first verified bytes, so
// an error before the first part becomes an ordinary problem.
type multipart struct {
	b        *body
	ranges   []byterange.Range // at least two, in the order of the request
	boundary string            // 64 random bits, which content contains only by chance
}

// split makes the answer a multipart one. It joins ranges that overlap, and ranges whose gap
// is smaller than the header of another part. If one range remains, the answer has one part.
func (b *body) split(asked []byterange.Range) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	p := &multipart{b: b, boundary: hex.EncodeToString(random[:])}
	cost := int64(len(p.partHeader(1, byterange.Range{End: 1}))) // of the shortest part header
	if p.ranges = coalesce(asked, cost); len(p.ranges) == 1 {
		b.part = p.ranges[0]
		return
	}
	b.multipart = p
}

// coalesce joins ranges with less than gap bytes between them. A joined range takes the place
// of the first of its parts. It reuses ranges.
func coalesce(ranges []byterange.Range, gap int64) []byterange.Range {
	for i := 0; i < len(ranges); i++ {
		for j := i + 1; j < len(ranges); {
			a, b := ranges[i], ranges[j]
			if max(a.Start, b.Start)-min(a.End, b.End) >= gap {
				j++
				continue
			}
			ranges[i] = byterange.Range{Start: min(a.Start, b.Start), End: max(a.End, b.End)}
			ranges = slices.Delete(ranges, j, j+1)
			j = i + 1 // the longer range may now reach one that was compared before
		}
	}
	return ranges
}

// partHeader returns the delimiter and the header of part i, counted from 0.
func (p *multipart) partHeader(i int, r byterange.Range) string {
	s := fmt.Sprintf("--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n",
		p.boundary, p.b.contentType, r.Of(p.b.size))
	if i > 0 {
		return "\r\n" + s
	}
	return s
}

// closing returns the delimiter after the last part.
func (p *multipart) closing() string { return "\r\n--" + p.boundary + "--\r\n" }

// header sets the type and length of the answer. Content-Range belongs into the parts alone
// (RFC 9110 §15.3.7.2).
func (p *multipart) header(h http.Header) {
	length := int64(len(p.closing()))
	for i, r := range p.ranges {
		length += int64(len(p.partHeader(i, r))) + r.Len()
	}
	h.Set("Content-Type", mediaByteranges+"; boundary="+p.boundary)
	h.Set("Content-Length", strconv.FormatInt(length, 10))
}

// send writes the parts: from memory, or from c if memory is nil.
func (p *multipart) send(c Content, memory []byte) error {
	for i, r := range p.ranges {
		if err := p.b.copyRange(&partWriter{p.b, p.partHeader(i, r)}, c, memory, r); err != nil {
			return err
		}
	}
	_, err := io.WriteString(p.b, p.closing())
	return err
}

// partWriter writes the bytes of one part, and the part's header before the first of them.
type partWriter struct {
	b      *body
	header string
}

func (o *partWriter) Write(p []byte) (int, error) {
	if o.header != "" {
		if _, err := io.WriteString(o.b, o.header); err != nil {
			return 0, err
		}
		o.header = ""
	}
	return o.b.Write(p)
}
