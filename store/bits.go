package store

import "math/bits"

// bitmap is a sparse set of numbers: its memory grows with what was added, not
// with the largest, which may come from a claim that nobody proved yet.
type bitmap struct {
	pages map[int64]*bitPage
	n     int64
}

// pageBits is how many numbers a page holds: of groups, 256 MiB of an object.
const pageBits = 4096

// bitPage is the numbers from a multiple of pageBits on, lowest bit first.
type bitPage [pageBits / 64]uint64

// add adds i ≥ 0 and reports whether it is new.
func (b *bitmap) add(i int64) bool {
	if b.pages == nil {
		b.pages = map[int64]*bitPage{}
	}
	page := b.pages[i/pageBits]
	if page == nil {
		page = new(bitPage)
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

// remove takes i out and reports whether it was in.
func (b *bitmap) remove(i int64) bool {
	if !b.has(i) {
		return false
	}
	b.pages[i/pageBits][i%pageBits/64] &^= 1 << (i % 64)
	b.n--
	return true
}

func (b *bitmap) has(i int64) bool {
	page := b.pages[i/pageBits]
	return page != nil && page[i%pageBits/64]&(1<<(i%64)) != 0
}

// count is how many numbers are in.
func (b *bitmap) count() int64 { return b.n }

// page is a copy of page n.
func (b *bitmap) page(n int64) bitPage {
	if p := b.pages[n]; p != nil {
		return *p
	}
	return bitPage{}
}

// put adds the numbers below limit that page n has.
func (b *bitmap) put(n int64, page bitPage, limit int64) {
	for w, word := range page {
		for ; word != 0; word &= word - 1 {
			if i := n*pageBits + int64(w)*64 + int64(bits.TrailingZeros64(word)); i < limit {
				b.add(i)
			}
		}
	}
}

// member is the first number of [from, to) that is in, to when none is.
func (b *bitmap) member(from, to int64) int64 {
	for from < to {
		n := from / pageBits
		page := b.pages[n]
		if page == nil {
			from = b.pageAfter(n, (to-1)/pageBits) * pageBits
			continue
		}
		from = page.next(from, 0)
		if from/pageBits == n {
			break
		}
	}
	return min(from, to)
}

// hole is the first number of [from, to) that is not in, to when all are.
func (b *bitmap) hole(from, to int64) int64 {
	for from < to {
		n := from / pageBits
		page := b.pages[n]
		if page == nil {
			break
		}
		from = page.next(from, ^uint64(0))
		if from/pageBits == n {
			break
		}
	}
	return min(from, to)
}

// pageAfter is the first page after n that exists, one more than last when none
// up to last does. It takes no longer than there are pages.
func (b *bitmap) pageAfter(n, last int64) int64 {
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
func (p *bitPage) next(i int64, skip uint64) int64 {
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
