package uses

import (
	"hash/maphash"
	"slices"

	"allium/protocols/b3"
	"allium/store/bloom"
	"allium/store/meta"
)

const (
	// firstFilterRoots is the number of roots that the first filter of a hold is made for. Each
	// further filter is made for twice as many.
	firstFilterRoots = 64 << 10
	// maxFilterBytes bounds the filters of all holds. When they are full, a hold protects
	// every object.
	maxFilterBytes = 32 << 20
)

// holds are the holds in the order in which they began. A used object is added to the
// newest hold only: that protects it while this hold or an older one lasts.
//
// Invariant: the first hold of the list has not ended.
type holds struct {
	seed  maphash.Seed
	list  []*hold
	bytes int64 // of all filters
}

// hold is one hold, with what was used from its begin until the next one began.
type hold struct {
	begun   meta.Second
	ended   bool // its filters stay while an older hold lasts
	filters []filter
}

// filter is a Bloom filter with roots in it, made for capacity roots.
type filter struct {
	filter          *bloom.Filter
	roots, capacity int64
}

func (hs *holds) begin(begun meta.Second) *hold {
	if len(hs.list) == 0 {
		hs.seed, hs.bytes = maphash.MakeSeed(), 0
	}
	h := &hold{begun: begun}
	hs.list = append(hs.list, h)
	return h
}

// end ends h. Objects that h alone protects are forgotten; those that an older hold protects too go to the hold before
// h.
func (hs *holds) end(h *hold) {
	h.ended = true
	for len(hs.list) > 0 && hs.list[0].ended {
		for _, s := range hs.list[0].filters {
			hs.bytes -= s.filter.Bytes()
		}
		hs.list = slices.Delete(hs.list, 0, 1)
	}
	if i := slices.Index(hs.list, h); i > 0 {
		for _, s := range h.filters {
			hs.merge(hs.list[i-1], s)
		}
		hs.list = slices.Delete(hs.list, i, i+1)
	}
}

// merge adds a filter to h. It unites two filters when one has space for both.
func (hs *holds) merge(h *hold, s filter) {
	for i := range h.filters {
		if o := &h.filters[i]; o.capacity == s.capacity && o.roots+s.roots <= o.capacity {
			o.filter.Merge(s.filter)
			o.roots += s.roots
			hs.bytes -= s.filter.Bytes()
			return
		}
	}
	h.filters = append(h.filters, s)
	slices.SortStableFunc(h.filters, func(a, b filter) int { return int(a.capacity - b.capacity) })
}

// add adds root to the newest hold. It returns false when there is no space for another
// filter.
func (hs *holds) add(root b3.Root) bool {
	h := hs.list[len(hs.list)-1]
	if h.has(root) {
		return true
	}
	if k := len(h.filters); k == 0 || h.filters[k-1].roots == h.filters[k-1].capacity {
		most := int64(firstFilterRoots)
		if k > 0 {
			most = 2 * h.filters[k-1].capacity
		}
		f := bloom.NewSeeded(hs.seed, most)
		if hs.bytes+f.Bytes() > maxFilterBytes {
			return false
		}
		hs.bytes += f.Bytes()
		h.filters = append(h.filters, filter{filter: f, capacity: most})
	}
	last := &h.filters[len(h.filters)-1]
	last.filter.Add(root)
	last.roots++
	return true
}

func (h *hold) has(root b3.Root) bool {
	return slices.ContainsFunc(h.filters, func(s filter) bool { return s.filter.Has(root) })
}

// has reports whether root may be among the objects that a hold protects.
func (hs *holds) has(root b3.Root) bool {
	return slices.ContainsFunc(hs.list, func(h *hold) bool { return h.has(root) })
}

// bounds returns when the oldest and the newest hold began, 0 for none.
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
