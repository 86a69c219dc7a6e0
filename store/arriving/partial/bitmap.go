package partial

import (
	"math/bits"

	"allium/store/meta"
)

const pageBits = meta.PageBits

// Bitmap is a sparse set of numbers ≥ 0. Its memory grows with the pages in use, not with
// the largest number, which may come from an unproved claim. The zero value is empty.
type Bitmap struct {
	pages map[int64]*meta.Bits
	n     int64 // numbers in the set
}

// Add adds i and reports whether it is new.
func (b *Bitmap) Add(i int64) bool {
	if b.pages == nil {
		b.pages = map[int64]*meta.Bits{}
	}
	page := b.pages[i/pageBits]
	if page == nil {
		page = new(meta.Bits)
		b.pages[i/pageBits] = page
	}
	word, bit := &page[i%pageBits/64], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	b.n++
	return true
}

// Remove removes i and reports whether it was in the set.
func (b *Bitmap) Remove(i int64) bool {
	if !b.Has(i) {
		return false
	}
	b.pages[i/pageBits][i%pageBits/64] &^= 1 << (i % 64)
	b.n--
	return true
}

// Has reports whether i is in the set.
func (b *Bitmap) Has(i int64) bool {
	page := b.pages[i/pageBits]
	return page != nil && page[i%pageBits/64]&(1<<(i%64)) != 0
}

// Count returns how many numbers are in the set.
func (b *Bitmap) Count() int64 { return b.n }

// CountIn returns how many numbers of [from, to) are in the set.
func (b *Bitmap) CountIn(from, to int64) (n int64) {
	for from < to {
		page, end := b.pages[from/pageBits], min(to, (from/pageBits+1)*pageBits)
		if page == nil {
			from = end
			continue
		}
		for from < end {
			word := page[from%pageBits/64] >> (from % 64)
			if left := end - from; left < 64 {
				word &= 1<<left - 1
			}
			n += int64(bits.OnesCount64(word))
			from = min(end, from-from%64+64)
		}
	}
	return n
}

// Page returns a copy of page n.
func (b *Bitmap) Page(n int64) meta.Bits {
	if p := b.pages[n]; p != nil {
		return *p
	}
	return meta.Bits{}
}

// AddPage adds the numbers of page n that are below limit.
func (b *Bitmap) AddPage(n int64, page meta.Bits, limit int64) {
	for w, word := range page {
		for ; word != 0; word &= word - 1 {
			if i := n*pageBits + int64(w)*64 + int64(bits.TrailingZeros64(word)); i < limit {
				b.Add(i)
			}
		}
	}
}

// FirstPresent returns the first number of [from, to) that is in the set, or to when none
// is.
func (b *Bitmap) FirstPresent(from, to int64) int64 {
	for from < to {
		n := from / pageBits
		page := b.pages[n]
		if page == nil {
			from = b.pageAfter(n, (to-1)/pageBits) * pageBits
			continue
		}
		from = nextBit(page, from, 0)
		if from/pageBits == n {
			break
		}
	}
	return min(from, to)
}

// FirstAbsent returns the first number of [from, to) that is not in the set, or to when all
// are.
func (b *Bitmap) FirstAbsent(from, to int64) int64 {
	for from < to {
		n := from / pageBits
		page := b.pages[n]
		if page == nil {
			break
		}
		from = nextBit(page, from, ^uint64(0))
		if from/pageBits == n {
			break
		}
	}
	return min(from, to)
}

// pageAfter returns the first page after n that exists, or last+1 when none up to last
// does. It looks at no more pages than exist.
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

// nextBit returns the first number from i on, which is on this page, whose bit differs from
// the bits of skip, or the first number of the next page.
func nextBit(p *meta.Bits, i int64, skip uint64) int64 {
	at := i % pageBits
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
	return base + pageBits
}
