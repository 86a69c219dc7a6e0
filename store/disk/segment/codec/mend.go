package codec

import "allium/store/meta"

// Damage of a single byte is repaired while reading, in a header and in a body of up
// to maxMend bytes with a CRC. All 255 other values of each byte are tried until the
// checksum fits, which is 17,340 tries for a record header. A header must also fit its
// place. A wrong repair passes once in about 10^10 damaged records.

// maxMend is the largest length in bytes that is repaired. The time grows with its square.
const maxMend = 512

// mend finds and sets the one wrong byte of p. It reports whether that satisfied good;
// otherwise p is unchanged.
func mend(p []byte, good func([]byte) bool) bool {
	if len(p) > maxMend {
		return false
	}
	for i, was := range p {
		for by := 1; by < 256; by++ {
			p[i] = was ^ byte(by)
			if good(p) {
				return true
			}
		}
		p[i] = was
	}
	return false
}

// mendRecord repairs a copy of the record header in p that did not parse at offset at, and
// decodes it. fits reports whether a decoded record can be at that offset.
func (h SegmentHeader) mendRecord(p []byte, at int64, fits func(Record) bool) (r Record, ok bool) {
	if len(p) < h.recordHeaderSize() {
		return Record{}, false
	}
	p = append([]byte(nil), p[:h.recordHeaderSize()]...)
	ok = mend(p, func(p []byte) bool {
		r, ok = h.decodeRecord(p, at)
		return ok && fits(r)
	})
	return r, ok
}

// MendSegmentHeader repairs a copy of the segment header in p that did not parse, and
// decodes it.
func MendSegmentHeader(p []byte) (h SegmentHeader, ok bool) {
	for _, n := range []int{SegmentHeaderSize, oldSegmentHeaderSize} {
		if len(p) < n {
			continue
		}
		q := append([]byte(nil), p[:n]...)
		if mend(q, func(q []byte) bool { h, ok = decodeSegmentHeader(q); return ok }) {
			return h, true
		}
	}
	return SegmentHeader{}, false
}

// MendBody repairs a copy of a body that ends with a CRC. ok is false when one byte does
// not explain the damage.
func MendBody(body []byte) (mended []byte, ok bool) {
	p := append([]byte(nil), body...)
	return p, mend(p, meta.Checksummed)
}
