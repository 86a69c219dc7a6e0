package tables

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
	"allium/store/meta"
)

// GetAll returns the entries of roots, in their order, with one sorted look-up. The Root of
// an entry is zero when there is no such object.
func (x *Index) GetAll(roots []b3.Root) ([]meta.Entry, error) { return getAllFrom(x.db, roots) }

// GetAll is Index.GetAll on the batch.
func (b *Batch) GetAll(roots []b3.Root) ([]meta.Entry, error) { return getAllFrom(b.reader, roots) }

func getAllFrom(r pebble.Reader, roots []b3.Root) ([]meta.Entry, error) {
	es := make([]meta.Entry, len(roots))
	return es, lookUpSorted(r, keyObject, roots, func(i int, v []byte) (err error) {
		es[i], err = decodeEntry(roots[i], v)
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
	err = lookUpSorted(b.reader, keyUse, roots, func(i int, v []byte) error {
		used, err := decodeUse(v)
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

// lookUpSorted calls found with the value of each of roots that has a key of that kind. It
// seeks in key order with one iterator, so blocks that neighbouring keys share are read
// once, and the filters skip absent keys.
func lookUpSorted(r pebble.Reader, kind byte, roots []b3.Root, found func(i int, value []byte) error) error {
	if len(roots) == 0 {
		return nil
	}
	order := make([]int, len(roots))
	for i := range order {
		order[i] = i
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
