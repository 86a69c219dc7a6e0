package segment

import (
	"maps"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// operations are the changes that the log offers beside Put. Each waits until the writer has
// committed it.
type operations struct{ queue *queue }

// AddFiles durably enters large objects whose files are in place. It skips those that the
// index has undamaged.
func (o operations) AddFiles(es []meta.Entry) error {
	cs := make([]*change, len(es))
	for i, e := range es {
		cs[i] = &change{kind: changeFile, entry: e}
	}
	return o.queue.submit(cs...)
}

// Adopt durably enters a large object whose file was found, unless it was removed or stored
// since. It reports whether the object was entered.
func (o operations) Adopt(e meta.Entry) (bool, error) {
	c := &change{kind: changeFile, entry: e, unlessRemoved: true}
	err := o.queue.submit(c)
	return c.applied, err
}

// Remove durably removes objects with one sync. It returns those that the index had as es
// gives them; the caller then deletes the files of large ones.
func (o operations) Remove(es []meta.Entry) (removed []meta.Entry, err error) {
	cs := make([]*change, len(es))
	for i, e := range es {
		cs[i] = &change{kind: changeRemove, entry: e}
	}
	if err := o.queue.submit(cs...); err != nil {
		return nil, err
	}
	for _, c := range cs {
		if c.applied {
			removed = append(removed, c.entry)
		}
	}
	return removed, nil
}

// ForgetRemovals drops the notes of removals, given by their numbers, whose files are
// deleted.
func (o operations) ForgetRemovals(removed map[b3.Root]uint64) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(removed)), touchChunk) {
		c := &change{kind: changeForgetRemovals, removals: map[b3.Root]uint64{}}
		for _, root := range chunk {
			c.removals[root] = removed[root]
		}
		if err := o.queue.submit(c); err != nil {
			return err
		}
	}
	return nil
}

// Touch sets the last uses of objects. A crash may lose them. It skips objects that do not
// exist, and those whose noted use is less than minAge seconds older.
func (o operations) Touch(used map[b3.Root]meta.Second, minAge meta.Second) error {
	for chunk := range slices.Chunk(slices.SortedFunc(maps.Keys(used), meta.CompareRoots), touchChunk) {
		lastUses := make([]meta.Second, len(chunk))
		for i, root := range chunk {
			lastUses[i] = used[root]
		}
		if err := o.queue.submit(&change{kind: changeTouch, touch: touch{chunk, lastUses, minAge}}); err != nil {
			return err
		}
	}
	return nil
}

// Mark sets or clears the corrupt flag of e, unless its bytes moved.
func (o operations) Mark(e meta.Entry, corrupt bool) error {
	return o.queue.submit(&change{kind: changeMark, entry: e, corrupt: corrupt})
}

// SetPins durably sets pins, pinChunk with one sync. If the pin that one replaces has a target with a higher
// number, that target stays.
func (o operations) SetPins(pins []meta.Pin) error {
	for chunk := range slices.Chunk(pins, pinChunk) {
		cs := make([]*change, len(chunk))
		for i, p := range chunk {
			cs[i] = &change{kind: changePin, pin: p}
		}
		if err := o.queue.submit(cs...); err != nil {
			return err
		}
	}
	return nil
}

// SetTarget durably sets the target of a pin, unless the pin has one with a higher number, and
// reports whether it did.
func (o operations) SetTarget(root b3.Root, label string, t meta.Target) (bool, error) {
	c := &change{kind: changeTarget, pin: meta.Pin{Root: root, Label: label, Target: t}}
	err := o.queue.submit(c)
	return c.applied, err
}

// DropPin durably drops a pin and reports whether it existed. One with a target leaves a released
// pin, which DropPin drops with released.
func (o operations) DropPin(root b3.Root, label string, released bool) (bool, error) {
	c := &change{
		kind: changeUnpin, pin: meta.Pin{Root: root, Label: label, Released: released},
		now: uint64(time.Now().UnixMilli()),
	}
	err := o.queue.submit(c)
	return c.applied, err
}
