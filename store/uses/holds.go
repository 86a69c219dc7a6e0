package uses

import (
	"hash/maphash"
	"slices"

	"allium/protocols/b3"
	"allium/store/bloom"
	"allium/store/meta"
)

const (
	// firstShown is how many roots the first filter of a hold has room for. Each
	// further filter has room for twice as many.
	firstShown = 64 << 10
	// maxShownBytes bounds the filters of all holds. Beyond it, a hold keeps every
	// object.
	maxShownBytes = 32 << 20
)

// holds are the holds in the order in which they began. An object that is used is
// added to the newest hold alone: it is kept while that hold or an older one lasts.
//
// Invariant: the first hold of the list has not ended.
type holds struct {
	seed  maphash.Seed
	list  []*hold
	bytes int64 // of all filters
}

// hold is one hold, and what was used from its begin until the next one began.
type hold struct {
	begun meta.Second
	ended bool // an older hold still needs shown
	shown []shown
}

// shown is a filter, with the number of roots in it and that it has room for.
type shown struct {
	filter  *bloom.Filter
	n, most int64
}

func (hs *holds) begin(begun meta.Second) *hold {
	if len(hs.list) == 0 {
		hs.seed, hs.bytes = maphash.MakeSeed(), 0
	}
	h := &hold{begun: begun}
	hs.list = append(hs.list, h)
	return h
}

// end ends h. What only h kept is forgotten; what an older hold keeps as well is
// handed to the hold before h.
func (hs *holds) end(h *hold) {
	h.ended = true
	for len(hs.list) > 0 && hs.list[0].ended {
		for _, s := range hs.list[0].shown {
			hs.bytes -= s.filter.Bytes()
		}
		hs.list = slices.Delete(hs.list, 0, 1)
	}
	if i := slices.Index(hs.list, h); i > 0 {
		for _, s := range h.shown {
			hs.join(hs.list[i-1], s)
		}
		hs.list = slices.Delete(hs.list, i, i+1)
	}
}

// join adds a filter to h. Two filters that one has room for become one.
func (hs *holds) join(h *hold, s shown) {
	for i := range h.shown {
		if o := &h.shown[i]; o.most == s.most && o.n+s.n <= o.most {
			o.filter.Merge(s.filter)
			o.n += s.n
			hs.bytes -= s.filter.Bytes()
			return
		}
	}
	h.shown = append(h.shown, s)
	slices.SortStableFunc(h.shown, func(a, b shown) int { return int(a.most - b.most) })
}

// show adds root to the newest hold. It reports false where there is no room for
// another filter.
func (hs *holds) show(root b3.Root) bool {
	h := hs.list[len(hs.list)-1]
	if h.has(root) {
		return true
	}
	if k := len(h.shown); k == 0 || h.shown[k-1].n == h.shown[k-1].most {
		most := int64(firstShown)
		if k > 0 {
			most = 2 * h.shown[k-1].most
		}
		f := bloom.NewSeeded(hs.seed, most)
		if hs.bytes+f.Bytes() > maxShownBytes {
			return false
		}
		hs.bytes += f.Bytes()
		h.shown = append(h.shown, shown{filter: f, most: most})
	}
	last := &h.shown[len(h.shown)-1]
	last.filter.Add(root)
	last.n++
	return true
}

func (h *hold) has(root b3.Root) bool {
	return slices.ContainsFunc(h.shown, func(s shown) bool { return s.filter.Has(root) })
}

// has reports whether an object that a hold keeps may be root.
func (hs *holds) has(root b3.Root) bool {
	return slices.ContainsFunc(hs.list, func(h *hold) bool { return h.has(root) })
}

// bounds returns when the first and the last of the holds began, 0 for none.
func (hs *holds) bounds() (oldest, newest meta.Second) {
	for _, h := range hs.list {
		if h.ended {
			continue
		}
		if oldest == 0 || h.begun < oldest {
			oldest = h.begun
		}
		newest = max(newest, h.begun)
	}
	return oldest, newest
}
