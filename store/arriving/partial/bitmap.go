package partial

import "math/bits"

// Bitmap is a sparse set of numbers ≥ 0. Its memory grows with the pages in use, not with
// the largest number, which may come from an unproved claim. The zero value is empty.
type Bitmap struct {
	pages map[int64]*Bits
	n     int64 // numbers in the set
}

// PageBits is the count of numbers that a page covers. For groups that is 256 MiB of an object.
const PageBits = 4096

// Bits is one page: the numbers from a multiple of PageBits on, lowest bit first.
type Bits [PageBits / 64]uint64

// Add adds i and reports whether it is new.
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

// Remove removes i and reports whether it was in the set.
func (b *Bitmap) Remove(i int64) bool {
	if !b.Has(i) {
		return false
	}
	b.pages[i/PageBits][i%PageBits/64] &^= 1 << (i % 64)
	b.n--
	return true
}

// Has reports whether i is in the set.
func (b *Bitmap) Has(i int64) bool {
	page := b.pages[i/PageBits]
	return page != nil && page[i%PageBits/64]&(1<<(i%64)) != 0
}

// Count returns how many numbers are in the set.
func (b *Bitmap) Count() int64 { return b.n }

// CountIn returns how many numbers of [from, to) are in the set.
func (b *Bitmap) CountIn(from, to int64) (n int64) {
	for from < to {
		page, end := b.pages[from/PageBits], min(to, (from/PageBits+1)*PageBits)
		if page == nil {
			from = end
			continue
		}
		for from < end {
			word := page[from%PageBits/64] >> (from % 64)
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
func (b *Bitmap) Page(n int64) Bits {
	if p := b.pages[n]; p != nil {
		return *p
	}
	return Bits{}
}

// AddPage adds the numbers of page n that are below limit.
func (b *Bitmap) AddPage(n int64, page Bits, limit int64) {
	for w, word := range page {
		for ; word != 0; word &= word - 1 {
			if i := n*PageBits + int64(w)*64 + int64(bits.TrailingZeros64(word)); i < limit {
				b.Add(i)
			}
		}
	}
}

// FirstPresent returns the first number of [from, to) that is in the set, or to when none
// is.
func (b *Bitmap) FirstPresent(from, to int64) int64 {
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

// FirstAbsent returns the first number of [from, to) that is not in the set, or to when all
// are.
func (b *Bitmap) FirstAbsent(from, to int64) int64 {
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

// next returns the first number from i on, which is on this page, whose bit differs from
// the bits of skip, or the first number of the next page.
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
