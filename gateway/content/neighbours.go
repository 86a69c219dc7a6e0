package content

import (
	"net/http"
	"path"

	"allium/gateway/content/kind"
	"allium/gateway/content/pages"
	"allium/internal/natural"
	"allium/protocols/manifest"
)

// neighbours finds the pictures before and behind that of p, in the order of the gallery by name. It reads the
// directory once, and holds two of its names. A directory that is too long to be sorted has no such order, so its
// pictures have no neighbours. neighbours returns false if a part of the directory is not to be had now.
func neighbours(g *Handlers, b *body, r *http.Request, t target, p *pages.File) (whole bool) {
	if len(t.names) == 0 {
		return true
	}
	reader := &manifestReader{g: g, b: b, r: r, top: t.root}
	defer reader.release()
	nodes := reader.nodes()
	above, err := nodes.Lookup(b.ctx, t.root, path.Dir("/"+t.path()))
	if err != nil {
		return false
	}
	dir, err := nodes.Open(b.ctx, above.Root, "")
	if err != nil {
		return false
	}
	if dir.Listed > maxSortedBytes {
		return true
	}
	this, entries := t.names[len(t.names)-1], 0
	var previous, next string
	for e, err := range dir.Entries(b.ctx) {
		if err != nil {
			return false
		}
		if entries++; entries > maxSorted {
			return true
		}
		if e.Kind != manifest.File || kind.Of(&e) != kind.Image {
			continue
		}
		switch order := natural.Compare(e.Name, this); {
		case order < 0 && (previous == "" || natural.Compare(e.Name, previous) > 0):
			previous = e.Name
		case order > 0 && (next == "" || natural.Compare(e.Name, next) < 0):
			next = e.Name
		}
	}
	if previous != "" {
		p.Previous = pages.NewNeighbour(previous)
	}
	if next != "" {
		p.Next = pages.NewNeighbour(next)
	}
	return true
}
