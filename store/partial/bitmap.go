package partial

import "math/bits"

// Bitmap is a sparse set of numbers: its memory grows with what was added, not
// with the largest, which may come from a claim that nobody proved yet.
type Bitmap struct {
	pages map[int64]*Bits
	n     int64
}

// PageBits is how many numbers a page holds: of groups, 256 MiB of an object.
const PageBits = 4096

// Bits is the numbers from a multiple of pageBits on, lowest bit first.
type Bits [PageBits / 64]uint64

// Add adds i ≥ 0 and reports whether it is new.
func (b *Bitmap) Add(i int64) bool {
	if b.pages == nil {
		b.pages = map[int64]*Bits{}
	}
	page := b.pages[i/PageBits]
	if page == nil {
		page = new(Bits)
		b.pages[i/PageBits] = page
	}
	word, bit := &page[i%PageBits/64], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	b.n++
	return true
}

// Remove takes i out and reports whether it was in.
func (b *Bitmap) Remove(i int64) bool {
	if !b.Has(i) {
		return false
	}
	b.pages[i/PageBits][i%PageBits/64] &^= 1 << (i % 64)
	b.n--
	return true
}

// Has reports whether i is in.
func (b *Bitmap) Has(i int64) bool {
	page := b.pages[i/PageBits]
	return page != nil && page[i%PageBits/64]&(1<<(i%64)) != 0
}

// Count is how many numbers are in.
func (b *Bitmap) Count() int64 { return b.n }

// Page is a copy of page n.
func (b *Bitmap) Page(n int64) Bits {
	if p := b.pages[n]; p != nil {
		return *p
	}
	return Bits{}
}

// Put adds the numbers below limit that page n has.
func (b *Bitmap) Put(n int64, page Bits, limit int64) {
	for w, word := range page {
		for ; word != 0; word &= word - 1 {
			if i := n*PageBits + int64(w)*64 + int64(bits.TrailingZeros64(word)); i < limit {
				b.Add(i)
			}
		}
	}
}

// Member is the first number of [from, to) that is in, to when none is.
func (b *Bitmap) Member(from, to int64) int64 {
	for from < to {
		n := from / PageBits
		page := b.pages[n]
		if page == nil {
			from = b.pageAfter(n, (to-1)/PageBits) * PageBits
			continue
		}
		from = page.next(from, 0)
		if from/PageBits == n {
			break
		}
	}
	return min(from, to)
}

// Hole is the first number of [from, to) that is not in, to when all are.
func (b *Bitmap) Hole(from, to int64) int64 {
	for from < to {
		n := from / PageBits
		page := b.pages[n]
		if page == nil {
			break
		}
		from = page.next(from, ^uint64(0))
		if from/PageBits == n {
			break
		}
	}
	return min(from, to)
}

// pageAfter is the first page after n that exists, one more than last when none
// up to last does. It takes no longer than there are pages.
func (b *Bitmap) pageAfter(n, last int64) int64 {
	found := last + 1
	if last-n > int64(len(b.pages)) {
		for i := range b.pages {
			if i > n && i < found {
				found = i
			}
		}
		return found
	}
	for i := n + 1; i <= last; i++ {
		if b.pages[i] != nil {
			return i
		}
	}
	return found
}

// next is the first number from i, which is on this page, whose bit differs
// from those of skip, or the first of the next page.
func (p *Bits) next(i int64, skip uint64) int64 {
	at := i % PageBits
	base := i - at
	for w := at / 64; w < int64(len(p)); w++ {
		word := p[w] ^ skip
		if w == at/64 {
			word &= ^uint64(0) << (at % 64)
		}
		if word != 0 {
			return base + w*64 + int64(bits.TrailingZeros64(word))
		}
	}
	return base + PageBits
}
