package gateway

import (
	"strings"

	"allium/protocols/b3"
)

// Denylist knows what is not to be served. Its errors are denied; it neither
// waits nor does I/O.
type Denylist interface {
	Object(root b3.Root) error
	// Path is Object of root, of every directory on the way and of what is at the
	// path, as far as the list names them by their path.
	Path(root b3.Root, path string) error
}

// denied says whether an object is not to be served. It comes before every
// lookup, and before answers that need none.
func (g *Gateway) denied(root b3.Root) error {
	if g.deps.Denylist == nil {
		return nil
	}
	return g.deps.Denylist.Object(root)
}

// deniedPath says whether what is at a path below root is not to be served.
func (g *Gateway) deniedPath(root b3.Root, path string) error {
	if g.deps.Denylist == nil {
		return nil
	}
	return g.deps.Denylist.Path(root, path)
}

// deniedKeys says whether a parameter of the local API names what is not to be
// served. A key that is none is the handler's to refuse.
func (g *Gateway) deniedKeys(e *endpoint, q params) error {
	if g.deps.Denylist == nil || e.own {
		return nil
	}
	for _, name := range [...]string{"key", "from", "to"} {
		if err := g.deniedKey(q.text(name)); err != nil {
			return err
		}
	}
	return nil
}

// deniedKey says whether a key, an address with or without a path below it, names
// what is not to be served.
func (g *Gateway) deniedKey(key string) error {
	address, path, _ := strings.Cut(key, "/")
	if root, err := b3.Parse(address); err == nil { // what else is wrong with it the handler says
		return g.deniedPath(root, strings.Trim(path, "/"))
	}
	return nil
}
