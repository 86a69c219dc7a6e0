package fill

import (
	"bytes"
	"encoding/binary"
	"time"

	"allium/protocols/b3"
)

// pathKey names a path of a source, as long as the source asks the same origin.
type pathKey [b3.Size]byte

// keyOf returns the key of a path. identity is that of the source.
func keyOf(identity b3.Root, path string) pathKey {
	return pathKey(b3.Sum(append(identity[:], path...)))
}

// record says which object a path became.
type record struct {
	root         b3.Root // zero: the origin does not have the path; such a record is in RAM alone
	size         int64
	etag         string // strong; empty: none
	lastModified string // as the origin writes it; empty: none
	fetched      time.Time
	freshUntil   time.Time
	strict       bool // the origin forbids serving it once it is stale
}

// fresh reports whether the origin need not be asked.
func (r *record) fresh(now time.Time) bool {
	return now.Before(r.freshUntil) && !now.Before(r.fetched.Add(-maxClockStep))
}

// maxClockStep is the time by which a record may come from the future. Beyond it, the clock was set back, and the
// record says nothing about its freshness.
const maxClockStep = time.Minute

// The encoding of a record: the version, the key, the root, the size and the two times in seconds as big-endian
// integers, a byte that is 1 if it is strict or else 0, the ETag and the Last-Modified with a length of two bytes
// each, and the first 8 bytes of the BLAKE3 of all that.
const (
	recordVersion = 2
	recordFixed   = 1 + 2*b3.Size + 3*8 + 1
	recordSum     = 8
	maxValidator  = 256 // bytes of an ETag or a Last-Modified
	maxRecord     = recordFixed + 2*(2+maxValidator) + recordSum
)

// encode returns the record of a key. Validators that are too long are left out.
func (r *record) encode(key pathKey) []byte {
	p := make([]byte, 0, maxRecord)
	p = append(p, recordVersion)
	p = append(p, key[:]...)
	p = append(p, r.root[:]...)
	for _, n := range []int64{r.size, r.fetched.Unix(), r.freshUntil.Unix()} {
		p = binary.BigEndian.AppendUint64(p, uint64(n)) //nolint:gosec // decode makes it signed again
	}
	strict := byte(0)
	if r.strict {
		strict = 1
	}
	p = append(p, strict)
	for _, s := range []string{r.etag, r.lastModified} {
		if len(s) > maxValidator {
			s = ""
		}
		p = binary.BigEndian.AppendUint16(p, uint16(len(s)))
		p = append(p, s...)
	}
	sum := b3.Sum(p)
	return append(p, sum[:recordSum]...)
}

// decodeRecord returns the record of a key. It returns false for a damaged record, and for that of another key.
func decodeRecord(key pathKey, p []byte) (*record, bool) {
	if len(p) < recordFixed+4+recordSum || len(p) > maxRecord || p[0] != recordVersion {
		return nil, false
	}
	p, end := p[:len(p)-recordSum], p[len(p)-recordSum:]
	sum := b3.Sum(p)
	if !bytes.Equal(end, sum[:recordSum]) || !bytes.Equal(p[1:1+b3.Size], key[:]) {
		return nil, false
	}
	r := &record{root: b3.Root(p[1+b3.Size : 1+2*b3.Size])}
	var n [3]int64
	for i := range n {
		n[i] = int64(binary.BigEndian.Uint64(p[1+2*b3.Size+8*i:])) //nolint:gosec // as encode made it
	}
	r.size, r.fetched, r.freshUntil = n[0], time.Unix(n[1], 0), time.Unix(n[2], 0)
	strict := p[recordFixed-1]
	r.strict = strict == 1
	p = p[recordFixed:]
	for _, to := range []*string{&r.etag, &r.lastModified} {
		if len(p) < 2 {
			return nil, false
		}
		size := int(binary.BigEndian.Uint16(p))
		if p = p[2:]; size > maxValidator || size > len(p) {
			return nil, false
		}
		*to, p = string(p[:size]), p[size:]
	}
	return r, len(p) == 0 && r.size >= 0 && strict <= 1 && !r.root.IsZero()
}
