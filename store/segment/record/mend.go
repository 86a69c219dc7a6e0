package record

import "allium/store/meta"

// A header or a short body of which one byte is wrong is mended when it is read:
// of all values of all bytes one alone gives the checksum. With 17,340 tries, and
// a header that also has to fit its place, a wrong one is taken once in some
// 10^10 damaged records.

// maxMend bounds the length of what is mended; the tries grow with its square.
const maxMend = 512

// mend looks for the one byte of p that is wrong, sets it, and reports whether
// that made p good. Otherwise p is as it was.
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

// mendRecord returns the record header in p, which does not parse, with one byte
// changed. fits says whether a record can be at that place.
func (h Header) mendRecord(p []byte, at int64, fits func(Record) bool) (r Record, ok bool) {
	if len(p) < h.recordSize() {
		return Record{}, false
	}
	p = append([]byte(nil), p[:h.recordSize()]...)
	ok = mend(p, func(p []byte) bool {
		r, ok = h.record(p, at)
		return ok && fits(r)
	})
	return r, ok
}

// MendHeader returns the header of a segment in p, which does not parse, with one
// byte changed.
func MendHeader(p []byte) (h Header, ok bool) {
	for _, n := range []int{HeaderSize, oldHeaderSize} {
		if len(p) < n {
			continue
		}
		q := append([]byte(nil), p[:n]...)
		if mend(q, func(q []byte) bool { h, ok = parseHeader(q); return ok }) {
			return h, true
		}
	}
	return Header{}, false
}

// MendBody changes one byte of a body that ends with a CRC, in a copy.
func MendBody(body []byte) ([]byte, bool) {
	p := append([]byte(nil), body...)
	return p, mend(p, meta.Checksummed)
}
