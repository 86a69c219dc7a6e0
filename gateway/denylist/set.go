package denylist

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"allium/protocols/b3"
)

// set is a list in memory. It does not change once sort was called.
type set struct {
	of    [kinds][]digest // each sorted, without repetition
	bytes int64           // of the files
}

func compare(a, b digest) int { return bytes.Compare(a[:], b[:]) }

// sort makes the set ready.
func (s *set) sort() {
	for k := range s.of {
		slices.SortFunc(s.of[k], compare)
		s.of[k] = slices.Clip(slices.Compact(s.of[k]))
	}
}

func (s *set) count() (n int) {
	for _, of := range s.of {
		n += len(of)
	}
	return n
}

func (s *set) equal(o *set) bool {
	for k := range s.of {
		if !slices.Equal(s.of[k], o.of[k]) {
			return false
		}
	}
	return true
}

func (s *set) has(k entryKind, d digest) bool {
	_, ok := slices.BinarySearchFunc(s.of[k], d, compare)
	return ok
}

// hasDouble looks for a double hash of an object, or of what is below it.
func (s *set) hasDouble(root b3.Root, below string) bool {
	if len(s.of[double]) == 0 {
		return false
	}
	for _, d := range doubles(root, below) {
		if s.has(double, d) {
			return true
		}
	}
	return below == "" && s.has(double, sha256.Sum256([]byte(root.CID().String())))
}

func (s *set) object(root b3.Root) bool {
	return s.has(object, digest(root)) || s.hasDouble(root, "")
}

// path looks for root, and for every part of a path below it.
func (s *set) path(root b3.Root, p string) bool {
	if s.object(root) {
		return true
	}
	if p == "" || len(s.of[path]) == 0 && len(s.of[double]) == 0 {
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
