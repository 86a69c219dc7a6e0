package meta

import (
	"bytes"

	"allium/protocols/b3"
)

// Entry describes one visible object.
type Entry struct {
	Root    b3.Root
	Size    int64  // bytes
	Corrupt bool   // its bytes failed a check; not served until put again
	Seg     uint64 // the segment of its record; 0 in the memory backend
	Off     int64  // offset of the body in segment Seg; only for small objects on disk
	Added   Second // when the object was stored; unchanged when compaction moves its record
	Used    Second // last use; only set by listings
}

// SameAs reports whether e and o come from the same put of the same object, even
// if compaction moved its record in between.
func (e Entry) SameAs(o Entry) bool { return e.Root == o.Root && e.Added == o.Added }

// SamePlace reports whether e and o have their bytes in the same place.
func (e Entry) SamePlace(o Entry) bool {
	return e.SameAs(o) && (!Small(e.Size) || e.Seg == o.Seg && e.Off == o.Off)
}

// Small reports whether an object of size bytes is at most one group, and so is
// stored in a record.
func Small(size int64) bool { return size <= b3.GroupSize }

// NextRoot returns the root after r in key order. ok is false if r is the last one.
func NextRoot(r b3.Root) (b3.Root, bool) {
	for i := len(r) - 1; i >= 0; i-- {
		if r[i]++; r[i] != 0 {
			return r, true
		}
	}
	return r, false
}

// CompareRoots compares addresses in the key order of the index.
func CompareRoots(a, b b3.Root) int { return bytes.Compare(a[:], b[:]) }

// PageSize is the maximum number of entries that a listing keeps in RAM.
const PageSize = 256

// MaxSegmentBytes is the largest valid size of a segment. It keeps offsets far
// below the largest int64.
const MaxSegmentBytes = 1 << 40
