package tables

import (
	"bytes"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Index is an open database with its tables. Its methods are safe for concurrent use.
type Index struct {
	*database
	view

	Clean       Cell // exists after an orderly close: totals that the next start need not count
	LogComplete Cell // exists when the log has a record for every large object and pin
	Orphans     Cell // exists while obj/ may hold files that no record names and that were not checked
	Scrub       Cell // progress of the scrub, which a crash may lose

	FileRemovals   RootSet // removed large objects whose files are to be deleted
	BucketRemovals RootSet // removed large objects that are to be deleted from the bucket
}

// ErrMalformed reports a key or value in the index that this program did not write.
var ErrMalformed = errors.New("is malformed")

// Options configure how an index is opened.
type Options struct {
	FS    vfs.FS
	Dir   string
	Cache int64 // bytes of blocks kept in RAM
	Files int   // most open files
	Fresh bool  // create a new index if there is none
	Log   *slog.Logger

	// FilterBytes is set to the bytes of the filter of roots, at most MaxFilterBytes; it may be nil.
	FilterBytes *atomic.Int64

	// NoCompactions turns off background work, for a store that must not write.
	NoCompactions bool

	// CheckSpace fails with no_space when there may be too little space for a write. The
	// database would not survive a write that fails. Nil means there is always space.
	CheckSpace func() error
}

// Open opens the index, or creates it when Options.Fresh is set. The caller calls Close or
// Abandon.
func Open(o Options) (*Index, error) {
	d, err := openDatabase(o)
	if err != nil {
		return nil, err
	}
	return &Index{
		database: d, view: view{d.db, newRootFilter(d, o.FilterBytes)},
		Clean: Cell{d, keyClean}, LogComplete: Cell{d, keyLogComplete},
		Orphans: Cell{d, keyOrphans}, Scrub: Cell{d, keyScrub},
		FileRemovals: RootSet{d, keyFileRemoval}, BucketRemovals: RootSet{d, keyBucketRemoval},
	}, nil
}

// PutEntry enters an object without sync. It is for a rebuild, which finds objects that the
// log lacks.
func (x *Index) PutEntry(e meta.Entry) error {
	x.filter.add(e.Root)
	return Cell{x.database, rootKey(keyObject, e.Root)}.Set(appendEntry(nil, e), false)
}

// Entries calls use for the objects from root on, in order of address, until use returns
// false. use must be fast.
func (x *Index) Entries(root b3.Root, use func(meta.Entry) (more bool)) error {
	return x.scan(rootKey(keyObject, root), []byte{keyObject + 1}, func(k, v []byte) (bool, error) {
		e, err := decodeObject(k, v)
		return err == nil && use(e), err
	})
}

// EachEntry calls use for every object in order of address. It reads a page at a time, so
// use may be slow and may change the index.
func (x *Index) EachEntry(use func(meta.Entry) error) error {
	return eachByPage(x.database, keyObject, decodeObject, use)
}

// Pins calls use for the pins from (root, label) on, in order of address and label, until
// use returns false: for those that are released, or for all others. use must be fast.
func (x *Index) Pins(root b3.Root, label string, released bool, use func(meta.Pin) (more bool)) error {
	return x.scan(pinKey(root, label), []byte{keyPin + 1}, func(k, v []byte) (bool, error) {
		p, err := decodePin(k, v)
		return err == nil && (p.Released != released || use(p.Pin)), err
	})
}

// EachPin calls use for every pin, released ones too, and the segment of its record, in order
// of address and label. It reads a page at a time, as EachEntry.
func (x *Index) EachPin(use func(p meta.Pin, seg uint64) error) error {
	return eachByPage(x.database, keyPin, decodePin, func(p pinRecord) error { return use(p.Pin, p.seg) })
}

// eachByPage calls use for every value of a kind in order of the keys.
func eachByPage[T any](d *database, kind byte, decode func(key, value []byte) (T, error), use func(T) error) error {
	page := make([]T, 0, meta.PageSize)
	for from := []byte{kind}; from != nil; {
		page = page[:0]
		var next []byte
		err := d.scan(from, []byte{kind + 1}, func(k, v []byte) (bool, error) {
			item, err := decode(k, v)
			if page = append(page, item); len(page) == cap(page) {
				next = append(bytes.Clone(k), 0)
			}
			return next == nil, err
		})
		if err != nil {
			return err
		}
		for _, item := range page {
			if err := use(item); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

// LastUse returns when e was last used, which is not before it was added.
func (x *Index) LastUse(e meta.Entry) (meta.Second, error) {
	used, _, err := get(x.db, rootKey(keyUse, e.Root), decodeUse)
	return max(used, e.Added), err
}

// FillUses sets the last uses of the entries in page, which must not be empty and is in
// order of address.
func (x *Index) FillUses(page []meta.Entry) error {
	lower := rootKey(keyUse, page[0].Root)
	upper := append(rootKey(keyUse, page[len(page)-1].Root), 0)
	return x.scan(lower, upper, func(k, v []byte) (bool, error) {
		root, err := decodeRootKey(k)
		if err != nil {
			return false, err
		}
		used, err := decodeUse(k, v)
		for len(page) > 0 && meta.CompareRoots(page[0].Root, root) < 0 {
			page = page[1:]
		}
		if len(page) > 0 && page[0].Root == root {
			page[0].Used = max(page[0].Used, used)
		}
		return len(page) > 0, err
	})
}
