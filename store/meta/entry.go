package meta

import (
	"bytes"

	"allium/protocols/b3"
)

// Entry is what a backend knows of one visible object.
type Entry struct {
	Root    b3.Root
	Size    int64
	Corrupt bool   // its bytes failed a check; not served until put again
	Seg     uint64 // the segment of its record
	Off     int64  // of the body in segment Seg; embedded backend, small objects only
	Added   Second // when the object was stored; kept when its record moves
	Used    Second // its last use, filled in by listings only
}

// SameAs reports whether e and o are one object that was stored once, wherever
// its record has moved since.
func (e Entry) SameAs(o Entry) bool { return e.Root == o.Root && e.Added == o.Added }

// SamePlace reports whether the bytes of e and o are the same ones.
func (e Entry) SamePlace(o Entry) bool {
	return e.SameAs(o) && (!Small(e.Size) || e.Seg == o.Seg && e.Off == o.Off)
}

// Small reports whether an object of that size is one group, kept whole.
func Small(size int64) bool { return size <= b3.GroupSize }

// NextRoot returns the root after r in key order; ok is false after the last one.
func NextRoot(r b3.Root) (b3.Root, bool) {
	for i := len(r) - 1; i >= 0; i-- {
		if r[i]++; r[i] != 0 {
			return r, true
		}
	}
	return r, false
}

// CompareRoots orders addresses as the keys of the index are.
func CompareRoots(a, b b3.Root) int { return bytes.Compare(a[:], b[:]) }

// PageSize is how many entries a listing holds at a time.
const PageSize = 256

// MaxSegmentBytes keeps offsets in a segment far from where int64 ends.
const MaxSegmentBytes = 1 << 40
