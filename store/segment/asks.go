package segment

import (
	"maps"
	"slices"

	"allium/protocols/b3"
	"allium/store/meta"
)

// AddFiles enters large objects whose files are in place, durably. One that is
// there whole is passed over.
func (q *queue) AddFiles(es []meta.Entry) error {
	cs := make([]*change, len(es))
	for i, e := range es {
		cs[i] = &change{kind: changeFile, e: e}
	}
	return q.do(cs...)
}

// Adopt enters a large object whose file was found, unless it was removed or
// stored since. It reports whether it did.
func (q *queue) Adopt(e meta.Entry) (bool, error) {
	c := &change{kind: changeFile, e: e, on: true}
	err := q.do(c)
	return c.did, err
}

// Remove removes objects, durably and with one sync, and returns those that were
// there as es has them. Of large ones the files are to be unlinked then.
func (q *queue) Remove(es []meta.Entry) (removed []meta.Entry, err error) {
	cs := make([]*change, len(es))
	for i, e := range es {
		cs[i] = &change{kind: changeRemove, e: e}
	}
	if err := q.do(cs...); err != nil {
		return nil, err
	}
	for _, c := range cs {
		if c.did {
			removed = append(removed, c.e)
		}
	}
	return removed, nil
}

// ForgetGone drops the notes of removals, by their numbers, whose files are gone
// for good.
func (q *queue) ForgetGone(removed map[b3.Root]uint64) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(removed)), touchChunk) {
		c := &change{kind: changeForget, gone: map[b3.Root]uint64{}}
		for _, root := range chunk {
			c.gone[root] = removed[root]
		}
		if err := q.do(c); err != nil {
			return err
		}
	}
	return nil
}

// Touch notes when objects were used last; a crash may forget it. It passes over
// objects that are not there, and those whose last use is less than age seconds
// earlier.
func (q *queue) Touch(used map[b3.Root]meta.Second, age meta.Second) error {
	for chunk := range slices.Chunk(slices.SortedFunc(maps.Keys(used), meta.CompareRoots), touchChunk) {
		c := &change{kind: changeTouch, roots: chunk, uses: make([]meta.Second, len(chunk)), age: age}
		for i, root := range chunk {
			c.uses[i] = used[root]
		}
		if err := q.do(c); err != nil {
			return err
		}
	}
	return nil
}

// Mark sets or clears the corrupt flag of e, unless its bytes are elsewhere now.
func (q *queue) Mark(e meta.Entry, corrupt bool) error {
	return q.do(&change{kind: changeMark, e: e, on: corrupt})
}

// SetPin sets a pin, durably.
func (q *queue) SetPin(p meta.Pin) error { return q.do(&change{kind: changePin, pin: p}) }

// DropPin drops a pin, durably, and reports whether there was one.
func (q *queue) DropPin(root b3.Root, label string) (bool, error) {
	c := &change{kind: changeUnpin, pin: meta.Pin{Root: root, Label: label}}
	err := q.do(c)
	return c.did, err
}
