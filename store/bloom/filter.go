// Package bloom provides Bloom filters of addresses.
package bloom

import (
	"hash/maphash"
	"sync/atomic"

	"allium/protocols/b3"
)

const (
	bitsPerRoot = 10       // about 1 % of absent roots are reported as present
	hashes      = 7        // bits set for each root
	minBytes    = 64 << 10 // of a filter
	maxBytes    = 32 << 20 // of a filter; room for 26 million roots, beyond it more roots are reported than were added
)

// Filter is a set of roots that may report a root that was not added. It is safe
// for concurrent use.
type Filter struct {
	seed  maphash.Seed
	words []uint64
}

// New returns an empty filter for that many roots. It has its own seed, so that the
// next filter reports other roots by mistake.
func New(roots int64) *Filter { return NewSeeded(maphash.MakeSeed(), roots) }

// NewSeeded is New with a given seed, which filters that are merged share.
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

// Has reports whether root may have been added. It is never false for a root that
// was.
func (f *Filter) Has(root b3.Root) bool {
	h := maphash.Bytes(f.seed, root[:])
	for i := range uint32(hashes) {
		if word, bit := f.place(h, i); atomic.LoadUint64(&f.words[word])&bit == 0 {
			return false
		}
	}
	return true
}

// Merge adds what other has, which was made with the same seed and size. Nobody
// uses other meanwhile.
func (f *Filter) Merge(other *Filter) {
	for i, w := range other.words {
		atomic.OrUint64(&f.words[i], w)
	}
}

// Bytes is the size of the filter.
func (f *Filter) Bytes() int64 { return int64(8 * len(f.words)) }

// place is the i-th bit of a root that hashes to h: double hashing, scaled to
// the number of bits, which is below 2^32.
func (f *Filter) place(h uint64, i uint32) (word, bit uint64) {
	at := uint64(uint32(h)+i*(uint32(h>>32)|1)) * uint64(64*len(f.words)) >> 32
	return at / 64, 1 << (at % 64)
}
