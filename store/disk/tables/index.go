package tables

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/pebbledb"
	"allium/protocols/b3"
	"allium/store/meta"
)

// Index is an open database. Its methods are safe for concurrent use. After the first
// failure reads go on and writes are refused, as package pebbledb defines; the database is
// then abandoned instead of closed.
type Index struct {
	db            *pebble.DB
	log           *slog.Logger
	checkSpace    func() error // Options.CheckSpace
	failure       *pebbledb.Failure
	failureLogged atomic.Bool
}

// ErrMalformed reports a key or value in the index that this program did not write.
var ErrMalformed = errors.New("is malformed")

// memTableSize is the size of a write buffer in bytes. Writes wait when four of them are
// not flushed.
const memTableSize = 4 << 20

// indexBlockSize is the size of a table's index block in bytes. One block holds the index
// of a whole table, so it is read and decoded once while the table is open.
const indexBlockSize = 1 << 20

// Options configure how an index is opened.
type Options struct {
	FS    vfs.FS
	Dir   string
	Cache int64 // bytes of blocks kept in RAM
	Files int   // most open files
	Fresh bool  // create a new index if there is none
	Log   *slog.Logger

	// NoCompactions turns off background work, for a store that must not write.
	NoCompactions bool

	// CheckSpace fails with no_space when there may be too little space for a write. The
	// database would not survive a write that fails. Nil means there is always space.
	CheckSpace func() error
}

// Open opens the index, or creates it when Options.Fresh is set. The caller calls Close or
// Abandon.
func Open(o Options) (x *Index, err error) {
	x = &Index{log: o.Log, checkSpace: o.CheckSpace}
	defer func() {
		if r := recover(); r != nil { // Pebble panics on damage that it does not expect
			x, err = nil, fmt.Errorf("open the index: %v: %w", r, pebble.ErrCorruption)
		}
	}()
	blocks := pebble.NewCache(o.Cache + 2*memTableSize) // Pebble allocates write buffers from the cache
	defer blocks.Unref()                                // the database holds its own reference
	opts := &pebble.Options{
		FS: o.FS, Cache: blocks, ErrorIfNotExists: !o.Fresh,
		FormatMajorVersion: pebble.FormatValueSeparation, // a part of our format: see FORMAT.md
		MemTableSize:       memTableSize, MemTableStopWritesThreshold: 4,
		DisableAutomaticCompactions: o.NoCompactions,
		L0CompactionThreshold:       4, L0StopWritesThreshold: 24, MaxOpenFiles: o.Files,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}
	x.failure = pebbledb.Guard(opts, o.Log)
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		return pebble.DBCompressionNone // digests do not compress
	})
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].IndexBlockSize = indexBlockSize
	}
	db, err := pebble.Open(o.Dir, opts)
	if failed := x.failure.Err(); failed != nil {
		if err == nil {
			_ = db.Close() // nothing reaches the disk any more
		}
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	x.db = db
	return x, nil
}

// Damage returns the failure of the database when its files are damaged and it must be
// rebuilt. Otherwise it returns nil.
func (x *Index) Damage() error {
	if err := x.failure.Err(); pebbledb.Damaged(err) {
		return err
	}
	return nil
}

// DiskBytes returns the size of the database's files.
func (x *Index) DiskBytes() int64 { return int64(x.db.Metrics().DiskSpaceUsage()) }

// Freeze makes the index refuse every further write with err. It is not safe for concurrent
// use.
func (x *Index) Freeze(err error) { x.checkSpace = func() error { return err } }

// Failure returns the error after which the index refuses writes, nil while it accepts
// them. The first call that finds one logs it.
func (x *Index) Failure() error {
	err := x.failure.Err()
	if err == nil {
		return nil
	}
	if !x.failureLogged.Swap(true) {
		x.log.Error("the index failed; the store is read-only until it is opened again", "err", err)
	}
	return meta.WriteError("write the index", err)
}

// Abandon closes a damaged database and ignores its errors.
func (x *Index) Abandon() {
	defer func() { _ = recover() }() // Pebble may find more damage
	if x.Failure() == nil {
		_ = x.db.Close() // the index is rebuilt
	}
}

// Writable returns the failure of the database, or no_space when there may be too little
// space for a write. Only the second is temporary.
func (x *Index) Writable() error {
	if err := x.Failure(); err != nil || x.checkSpace == nil {
		return err
	}
	return x.checkSpace()
}

// Close closes the database. It returns the failure of a failed one, which stays open.
func (x *Index) Close() error {
	if err := x.Failure(); err != nil {
		return err
	}
	return x.db.Close()
}

// apply writes and closes b. With sync, b and everything applied before it are durable.
func (x *Index) apply(b *pebble.Batch, sync bool) (err error) {
	if err := x.Writable(); err != nil {
		_ = b.Close() // frees memory
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			_ = x.failure.Damage(fmt.Errorf("%v", r))
			err = x.Failure()
		}
	}()
	mode := pebble.NoSync
	if sync {
		mode = pebble.Sync
	}
	if err := x.db.Apply(b, mode); err != nil {
		_ = x.failure.Damage(err) // a refusal of the disk is the failure already
	}
	if err := x.Failure(); err != nil {
		return err // Pebble was told that the write succeeded
	}
	return b.Close()
}

// set writes one key.
func (x *Index) set(key, value []byte, sync bool) error {
	b := x.db.NewBatch()
	if err := b.Set(key, value, nil); err != nil {
		return err
	}
	return x.apply(b, sync)
}

// drop durably deletes one key.
func (x *Index) drop(key []byte) error {
	b := x.db.NewBatch()
	if err := b.Delete(key, nil); err != nil {
		return err
	}
	return x.apply(b, true)
}

// Sync makes everything that was applied before durable.
func (x *Index) Sync() error {
	b := x.db.NewBatch()
	if err := b.LogData(nil, nil); err != nil {
		return err
	}
	return x.apply(b, true)
}

// read returns a key's value, which is valid until done is closed. ok is false when the key
// does not exist.
func (x *Index) read(key []byte) (v []byte, done io.Closer, ok bool, err error) {
	return readFrom(x.db, key)
}

// value returns a copy of a key's value. ok is false when the key does not exist.
func (x *Index) value(key []byte) (v []byte, ok bool, err error) {
	v, done, ok, err := x.read(key)
	if !ok {
		return nil, false, err
	}
	v = append([]byte(nil), v...)
	_ = done.Close() // frees memory
	return v, true, nil
}

// has reports whether a key exists.
func (x *Index) has(key []byte) (bool, error) {
	_, done, ok, err := x.read(key)
	if ok {
		_ = done.Close() // frees memory
	}
	return ok, err
}

func readFrom(r pebble.Reader, key []byte) (v []byte, done io.Closer, ok bool, err error) {
	v, done, err = r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil, false, nil
	}
	return v, done, err == nil, meta.ReadError(err)
}

// Get returns the entry of root. The result is false when there is no such object.
func (x *Index) Get(root b3.Root) (meta.Entry, bool, error) { return getFrom(x.db, root) }

// getFrom is Get on r.
func getFrom(r pebble.Reader, root b3.Root) (meta.Entry, bool, error) {
	var key [1 + b3.Size]byte
	key[0] = keyObject
	copy(key[1:], root[:])
	v, done, ok, err := readFrom(r, key[:])
	if !ok {
		return meta.Entry{}, false, err
	}
	e, err := decodeEntry(root, v)
	_ = done.Close() // frees memory
	return e, err == nil, err
}

// FillUses sets the last uses of the entries in page, which must not be empty and is in
// order of address.
func (x *Index) FillUses(page []meta.Entry) error {
	lower := rootKey(keyUse, page[0].Root)
	upper := append(rootKey(keyUse, page[len(page)-1].Root), 0)
	return x.scan(lower, upper, func(k, v []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x %w", meta.Excerpt(k), ErrMalformed)
		}
		used, err := decodeUse(v)
		for len(page) > 0 && bytes.Compare(page[0].Root[:], k[1:]) < 0 {
			page = page[1:]
		}
		if len(page) > 0 && page[0].Root == b3.Root(k[1:]) {
			page[0].Used = max(page[0].Used, used)
		}
		return len(page) > 0, err
	})
}

// scan calls use for the keys in [lower, upper), in order, until use returns false or an
// error. The iterator holds files of the index until then.
func (x *Index) scan(lower, upper []byte, use func(key, value []byte) (more bool, err error)) error {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return meta.ReadError(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		var v []byte
		if v, err = it.ValueAndErr(); err == nil {
			ok, err = use(it.Key(), v)
		}
		if err != nil || !ok {
			break
		}
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return meta.ReadError(err)
}

// EachEntry calls use for every object in order of address. It reads a page at a time, so
// use may be slow and may change the index.
func (x *Index) EachEntry(use func(meta.Entry) error) error {
	page := make([]meta.Entry, 0, meta.PageSize)
	for from, more := (b3.Root{}), true; more; {
		page = page[:0]
		err := x.Entries(from, func(e meta.Entry) bool {
			page = append(page, e)
			return len(page) < cap(page)
		})
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := use(e); err != nil {
				return err
			}
		}
		if more = len(page) == cap(page); more {
			from, more = meta.NextRoot(page[len(page)-1].Root)
		}
	}
	return nil
}

// EachPin calls use for every pin, released ones too, and the segment of its record, in order
// of address and label. It reads a page at a time, as EachEntry.
func (x *Index) EachPin(use func(p meta.Pin, seg uint64) error) error {
	type found struct {
		pin meta.Pin
		seg uint64
	}
	page := make([]found, 0, meta.PageSize)
	for from, more := pinKey(b3.Root{}, ""), true; more; {
		page = page[:0]
		err := x.pinsFrom(from, func(p meta.Pin, seg uint64) bool {
			page = append(page, found{p, seg})
			return len(page) < cap(page)
		})
		if err != nil {
			return err
		}
		for _, f := range page {
			if err := use(f.pin, f.seg); err != nil {
				return err
			}
		}
		if more = len(page) == cap(page); more {
			last := page[len(page)-1].pin
			from = append(pinKey(last.Root, last.Label), 0)
		}
	}
	return nil
}

// Pin returns a pin, also a released one.
func (x *Index) Pin(root b3.Root, label string) (p meta.Pin, ok bool, err error) {
	p, _, ok, err = pinFrom(x.db, root, label)
	return p, ok, err
}

// Pins calls use for the pins from (root, label) on, in order of address and label, until
// use returns false: for those that are released, or for all others. use must be fast.
func (x *Index) Pins(root b3.Root, label string, released bool, use func(meta.Pin) (more bool)) error {
	return x.pinsFrom(pinKey(root, label), func(p meta.Pin, _ uint64) bool {
		return p.Released != released || use(p)
	})
}

func (x *Index) pinsFrom(from []byte, use func(p meta.Pin, seg uint64) (more bool)) error {
	return x.scan(from, []byte{keyPin + 1}, func(k, v []byte) (bool, error) {
		p, seg, err := decodePin(k, v)
		return err == nil && use(p, seg), err
	})
}

// Entries calls use for the objects from root on, in order of address, until use returns
// false. use must be fast.
func (x *Index) Entries(root b3.Root, use func(meta.Entry) (more bool)) error {
	return x.scan(rootKey(keyObject, root), []byte{keyObject + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x %w", meta.Excerpt(k), ErrMalformed)
		}
		e, err := decodeEntry(b3.Root(k[1:]), v)
		return err == nil && use(e), err
	})
}
