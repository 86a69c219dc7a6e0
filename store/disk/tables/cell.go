package tables

import "allium/protocols/b3"

// Cell is the value of one key of the index.
type Cell struct {
	db  *database
	key []byte
}

// Get returns a copy of the value. ok is false when the key does not exist.
func (c Cell) Get() (value []byte, ok bool, err error) {
	return get(c.db.db, c.key, func(_, v []byte) ([]byte, error) { return append([]byte(nil), v...), nil })
}

// Has reports whether the key exists.
func (c Cell) Has() (bool, error) {
	_, ok, err := c.Get()
	return ok, err
}

// Set sets the value. With sync, it and everything applied before are durable.
func (c Cell) Set(value []byte, sync bool) error {
	b := c.db.db.NewBatch()
	if err := b.Set(c.key, value, nil); err != nil {
		return err
	}
	return c.db.apply(b, sync)
}

// Drop durably deletes the key.
func (c Cell) Drop() error {
	b := c.db.db.NewBatch()
	if err := b.Delete(c.key, nil); err != nil {
		return err
	}
	return c.db.apply(b, true)
}

// RootSet is the roots that have a key of one kind. A batch adds to it.
type RootSet struct {
	db   *database
	kind byte
}

// Has reports whether root is in the set.
func (s RootSet) Has(root b3.Root) (bool, error) { return Cell{s.db, rootKey(s.kind, root)}.Has() }

// Drop durably takes root out of the set.
func (s RootSet) Drop(root b3.Root) error { return Cell{s.db, rootKey(s.kind, root)}.Drop() }

// First returns the first n roots, in order of address.
func (s RootSet) First(n int) (roots []b3.Root, err error) {
	err = s.db.scan([]byte{s.kind}, []byte{s.kind + 1}, func(k, _ []byte) (bool, error) {
		root, err := decodeRootKey(k)
		roots = append(roots, root)
		return len(roots) < n, err
	})
	return roots, err
}

// Count returns the number of roots.
func (s RootSet) Count() (n int64, err error) {
	err = s.db.scan([]byte{s.kind}, []byte{s.kind + 1}, func(_, _ []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}
