package gc

import (
	"hash/maphash"
	"sync/atomic"

	"allium/protocols/b3"
)

const (
	filterBits   = 10       // for each root: about 1 % say "perhaps" without reason
	filterHashes = 7        // bits of a root
	minFilter    = 64 << 10 // bytes
	maxFilter    = 32 << 20 // bytes; room for 26 million roots, beyond it more is kept than need be
)

// filter is a Bloom filter of roots: has is never false for one that was added.
// Its seed is its own, so that a root it takes for another is another one in
// the next filter. It is safe for concurrent use.
type filter struct {
	seed  maphash.Seed
	words []uint64
}

func newFilter(roots int64) *filter {
	bytes := min(max(roots*filterBits/8, minFilter), maxFilter)
	return &filter{seed: maphash.MakeSeed(), words: make([]uint64, bytes/8)}
}

func (f *filter) add(root b3.Root) {
	h := maphash.Bytes(f.seed, root[:])
	for i := range uint32(filterHashes) {
		word, bit := f.place(h, i)
		if w := &f.words[word]; atomic.LoadUint64(w)&bit == 0 {
			atomic.OrUint64(w, bit)
		}
	}
}

func (f *filter) has(root b3.Root) bool {
	h := maphash.Bytes(f.seed, root[:])
	for i := range uint32(filterHashes) {
		if word, bit := f.place(h, i); atomic.LoadUint64(&f.words[word])&bit == 0 {
			return false
		}
	}
	return true
}

// place is the i-th bit of a root that hashes to h: double hashing, scaled to
// the number of bits, which is below 2^32.
func (f *filter) place(h uint64, i uint32) (word, bit uint64) {
	at := uint64(uint32(h)+i*(uint32(h>>32)|1)) * uint64(64*len(f.words)) >> 32
	return at / 64, 1 << (at % 64)
}
