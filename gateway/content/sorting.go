package content

import (
	"cmp"
	"slices"
	"strings"

	"allium/internal/natural"
)

// sort sorts entries as q asks: directories first, and those with the same size or kind in the natural order
// of their names. The reverse order reverses directories and others apart.
func (c *collected) sort(q pageQuery) {
	slices.SortFunc(c.items, func(x, y collectedItem) int {
		if r := cmp.Compare(rank(x), rank(y)); r != 0 {
			return r
		}
		by := 0
		switch q.sort {
		case sortKind:
			by = cmp.Compare(x.kind, y.kind)
		case sortSize:
			by = cmp.Compare(x.size, y.size)
		}
		if by == 0 {
			by = natural.Compare(c.name(x), c.name(y))
		}
		if q.desc {
			return -by
		}
		return by
	})
}

func rank(it collectedItem) int {
	if kinds[it.kind] == kindDirectory.Name {
		return 0
	}
	return 1
}

// filter matches names by a part of them, in any case. The zero filter matches all.
type filter struct{ part string }

func newFilter(part string) filter { return filter{strings.ToLower(part)} }

func (f filter) match(name string) bool {
	return f.part == "" || strings.Contains(strings.ToLower(name), f.part)
}
