package content

import (
	"cmp"
	"slices"
	"strings"

	"allium/internal/natural"
	"allium/protocols/manifest"
)

// sortEntries sorts entries as q asks: directories first, and those with the same size or kind in the natural order
// of their names. The reverse order reverses directories and others apart.
func sortEntries(all []manifest.Entry, q pageQuery) {
	switch q.sort {
	case sortKind:
		// A kind is looked up once for each entry.
		type listed struct {
			manifest.Entry
			kind string
		}
		withKind := make([]listed, len(all))
		for i := range all {
			withKind[i] = listed{all[i], kindOf(&all[i]).Name}
		}
		slices.SortFunc(withKind, func(a, b listed) int {
			return q.compare(&a.Entry, &b.Entry, strings.Compare(a.kind, b.kind))
		})
		for i := range all {
			all[i] = withKind[i].Entry
		}
	case sortSize:
		slices.SortFunc(all, func(a, b manifest.Entry) int {
			return q.compare(&a, &b, cmp.Compare(shownSize(&a), shownSize(&b)))
		})
	default:
		slices.SortFunc(all, func(a, b manifest.Entry) int { return q.compare(&a, &b, 0) })
	}
}

// compare compares entries: first the directories, then by what q sorts by, then by name.
func (q pageQuery) compare(a, b *manifest.Entry, by int) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	if by == 0 {
		by = natural.Compare(a.Name, b.Name)
	}
	if q.desc {
		return -by
	}
	return by
}

func rank(e *manifest.Entry) int {
	if e.Kind == manifest.Directory {
		return 0
	}
	return 1
}

// shownSize returns the size that a listing shows: that of a file.
func shownSize(e *manifest.Entry) int64 {
	if e.Kind == manifest.File {
		return e.Size
	}
	return 0
}

// filter matches names by a part of them, in any case. The zero filter matches all.
type filter struct{ part string }

func newFilter(part string) filter { return filter{strings.ToLower(part)} }

func (f filter) match(name string) bool {
	return f.part == "" || strings.Contains(strings.ToLower(name), f.part)
}
