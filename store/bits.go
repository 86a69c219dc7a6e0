package store

// bitmap is a sparse set of numbers: its memory grows with what was added, not
// with the largest, which may come from a claim that nobody proved yet.
type bitmap struct {
	pages map[int64]*[pageWords]uint64
	n     int64
}

// pageWords makes a page of 4,096 numbers: of groups, 256 MiB of an object.
const pageWords = 64

// add adds i ≥ 0 and reports whether it is new.
func (b *bitmap) add(i int64) bool {
	if b.pages == nil {
		b.pages = map[int64]*[pageWords]uint64{}
	}
	page := b.pages[i/(64*pageWords)]
	if page == nil {
		page = new([pageWords]uint64)
		b.pages[i/(64*pageWords)] = page
	}
	word, bit := &page[i/64%pageWords], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	b.n++
	return true
}

func (b *bitmap) has(i int64) bool {
	page := b.pages[i/(64*pageWords)]
	return page != nil && page[i/64%pageWords]&(1<<(i%64)) != 0
}

// count is how many numbers were added.
func (b *bitmap) count() int64 { return b.n }
