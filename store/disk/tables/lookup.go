package tables

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
	"allium/store/meta"
)

// view reads from the database, or from a batch that sees its own changes.
type view struct {
	reader pebble.Reader
	filter *rootFilter
}

// get returns the decoded value of a key. ok is false when the key does not exist.
func get[T any](r pebble.Reader, key []byte, decode func(key, value []byte) (T, error)) (v T, ok bool, err error) {
	p, done, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, meta.ReadError(err)
	}
	v, err = decode(key, p)
	_ = done.Close() // frees memory
	return v, err == nil, err
}

// Get returns the entry of root. The result is false when there is no such object.
func (v view) Get(root b3.Root) (meta.Entry, bool, error) {
	if v.filter.absent(root) {
		return meta.Entry{}, false, nil
	}
	e, ok, err := get(v.reader, rootKey(keyObject, root), decodeObject)
	if err == nil && !ok {
		v.filter.readPage()
	}
	return e, ok, err
}

// Pin returns a pin, also a released one, and the segment of its record.
func (v view) Pin(root b3.Root, label string) (p meta.Pin, seg uint64, ok bool, err error) {
	r, ok, err := get(v.reader, pinKey(root, label), decodePin)
	return r.Pin, r.seg, ok, err
}

// FileRemoval returns the number of the removal of root while its files may still exist.
func (v view) FileRemoval(root b3.Root) (n uint64, ok bool, err error) {
	return get(v.reader, rootKey(keyFileRemoval, root), decodeNumber)
}

// GetAll returns the entries of roots, in their order, with one sorted look-up. The Root of
// an entry is zero when there is no such object.
func (v view) GetAll(roots []b3.Root) ([]meta.Entry, error) {
	es := make([]meta.Entry, len(roots))
	absent := func(i int) bool { return v.filter.absent(roots[i]) }
	return es, lookUpSorted(v.reader, keyObject, roots, absent, func(i int, p []byte) (err error) {
		es[i], err = decodeEntry(roots[i], p)
		return err
	})
}

// Touch sets the last use of each of roots to the time of the same index in uses. It skips
// objects that do not exist, and those whose noted use is less than minAge seconds older.
func (b *Batch) Touch(roots []b3.Root, uses []meta.Second, minAge meta.Second) error {
	es, err := b.GetAll(roots)
	if err != nil {
		return err
	}
	without := func(i int) bool { return es[i].Root.IsZero() }
	err = lookUpSorted(b.reader, keyUse, roots, without, func(i int, v []byte) error {
		used, err := decodeUse(nil, v)
		es[i].Used = used
		return err
	})
	for i, e := range es {
		if err == nil && !e.Root.IsZero() && uses[i] >= max(e.Added, e.Used)+minAge {
			err = b.SetUse(e.Root, uses[i])
		}
	}
	return err
}

// lookUpSorted calls found with the value of each of roots that has a key of that kind and that it does not
// skip. It seeks in key order with one iterator, so blocks that neighbouring keys share are read
// once, and the filters of the tables skip absent keys.
func lookUpSorted(
	r pebble.Reader, kind byte, roots []b3.Root, skip func(i int) bool, found func(i int, value []byte) error,
) error {
	order := make([]int, 0, len(roots))
	for i := range roots {
		if !skip(i) {
			order = append(order, i)
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortFunc(order, func(i, j int) int { return meta.CompareRoots(roots[i], roots[j]) })
	it, err := r.NewIter(&pebble.IterOptions{
		LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}, UseL6Filters: true,
	})
	if err != nil {
		return meta.ReadError(err)
	}
	key := make([]byte, 1+b3.Size)
	key[0] = kind
	for _, i := range order {
		copy(key[1:], roots[i][:])
		if !it.SeekPrefixGE(key) {
			continue // absent, or an error that Close returns
		}
		v, err := it.ValueAndErr()
		if err != nil {
			break // Close returns it
		}
		if err := found(i, v); err != nil {
			_ = it.Close() // err is the cause
			return err
		}
	}
	return meta.ReadError(it.Close())
}
