package denylist

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/name"
)

// set is the entries of all files. It is immutable after sort.
type set struct {
	entries [kinds][]digest // entries by kind; after sort each is sorted and has no duplicates
	bytes   int64           // bytes of the files read
}

func compare(a, b digest) int { return bytes.Compare(a[:], b[:]) }

// sort sorts the entries and removes duplicates. Lookups need a sorted set.
func (s *set) sort() {
	for k := range s.entries {
		slices.SortFunc(s.entries[k], compare)
		s.entries[k] = slices.Clip(slices.Compact(s.entries[k]))
	}
}

// count returns the number of entries.
func (s *set) count() (n int) {
	for _, list := range s.entries {
		n += len(list)
	}
	return n
}

func (s *set) equal(o *set) bool {
	for k := range s.entries {
		if !slices.Equal(s.entries[k], o.entries[k]) {
			return false
		}
	}
	return true
}

func (s *set) has(k entryKind, d digest) bool {
	_, ok := slices.BinarySearchFunc(s.entries[k], d, compare)
	return ok
}

// hasDouble reports whether a double hash of an object, or of a path below it, is an
// entry. The CID of an object may be hashed with or without a final slash.
func (s *set) hasDouble(root b3.Root, below string) bool {
	if len(s.entries[double]) == 0 {
		return false
	}
	for _, d := range doubles(root, below) {
		if s.has(double, d) {
			return true
		}
	}
	return below == "" && s.has(double, sha256.Sum256([]byte(root.CID().String())))
}

// object reports whether an object is denied.
func (s *set) object(root b3.Root) bool {
	return s.has(object, digest(root)) || s.hasDouble(root, "")
}

// name reports whether a name or its zone is denied.
func (s *set) name(n name.Name) bool {
	if len(s.entries[named]) == 0 && len(s.entries[double]) == 0 {
		return false
	}
	for _, entry := range nameEntries(n) {
		if s.has(named, b3.Sum([]byte(entry))) ||
			len(s.entries[double]) > 0 && s.has(double, sha256.Sum256([]byte(entry))) {
			return true
		}
	}
	return false
}

// path reports whether root, or any part of the path p below it, is denied.
func (s *set) path(root b3.Root, p string) bool {
	if s.object(root) {
		return true
	}
	if p == "" || len(s.entries[path]) == 0 && len(s.entries[double]) == 0 {
		return false
	}
	address := root.String()
	for end := 0; end < len(p); {
		if next := strings.IndexByte(p[end+1:], '/'); next >= 0 {
			end += next + 1
		} else {
			end = len(p)
		}
		if s.has(path, pathDigest(address+"/"+p[:end])) || s.hasDouble(root, p[:end]) {
			return true
		}
	}
	return false
}
