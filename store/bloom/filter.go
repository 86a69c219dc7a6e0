// Package bloom provides Bloom filters of addresses: sets in little memory that
// never miss a member and sometimes report one that was not added.
//
// A filter uses 10 bits for each root, from 64 KiB to 32 MiB, and reports about
// 1 % of absent roots as present. Above 26 million roots that share grows.
package bloom

import (
	"hash/maphash"
	"sync/atomic"

	"allium/protocols/b3"
)

const (
	bitsPerRoot = 10       // about 1 % of absent roots are reported as present
	hashes      = 7        // bits set for each root
	minBytes    = 64 << 10 // smallest filter
	maxBytes    = 32 << 20 // largest filter, for 26 million roots
)

// Filter is a set of roots that may also report roots that were not added. It is
// safe for concurrent use.
type Filter struct {
	seed  maphash.Seed
	words []uint64
}

// New returns an empty filter sized for the given number of roots. Each filter has
// a random seed, so that two filters wrongly report different roots.
func New(roots int64) *Filter { return NewSeeded(maphash.MakeSeed(), roots) }

// NewSeeded is New with a given seed. Filters can only be merged if they have the
// same seed.
func NewSeeded(seed maphash.Seed, roots int64) *Filter {
	bytes := min(max(roots*bitsPerRoot/8, minBytes), maxBytes)
	return &Filter{seed: seed, words: make([]uint64, bytes/8)}
}

// Add adds root.
func (f *Filter) Add(root b3.Root) {
	h := maphash.Bytes(f.seed, root[:])
	for i := range uint32(hashes) {
		word, bit := f.place(h, i)
		if w := &f.words[word]; atomic.LoadUint64(w)&bit == 0 {
			atomic.OrUint64(w, bit)
		}
	}
}

// Has reports whether root may have been added. It is always true for a root that
// was added.
func (f *Filter) Has(root b3.Root) bool {
	h := maphash.Bytes(f.seed, root[:])
	for i := range uint32(hashes) {
		if word, bit := f.place(h, i); atomic.LoadUint64(&f.words[word])&bit == 0 {
			return false
		}
	}
	return true
}

// Merge adds the roots of other, which must have the same seed and size. other
// must not be used meanwhile.
func (f *Filter) Merge(other *Filter) {
	for i, w := range other.words {
		atomic.OrUint64(&f.words[i], w)
	}
}

// Bytes returns the size of the filter in bytes.
func (f *Filter) Bytes() int64 { return int64(8 * len(f.words)) }

// place returns the i-th bit of a root that hashes to h. It uses double hashing,
// scaled to the number of bits, which is below 2^32.
func (f *Filter) place(h uint64, i uint32) (word, bit uint64) {
	at := uint64(uint32(h)+i*(uint32(h>>32)|1)) * uint64(64*len(f.words)) >> 32
	return at / 64, 1 << (at % 64)
}
