package index

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

// Index is the open database. When it fails, reads go on, writes
// are refused, and the database is abandoned instead of closed: package pebbledb
// has the policy.
type Index struct {
	db     *pebble.DB
	log    *slog.Logger
	room   func() error // Options.Room
	broken *pebbledb.Failure
	told   atomic.Bool // the log of the failure
}

// ErrMalformed says that the index has something that this program did not
// write.
var ErrMalformed = errors.New("is malformed")

// The index's write buffer: two of these at most, before a flush is done.
const memTableSize = 4 << 20

// indexBlockSize has room for the index of a whole table, which is then read and
// decoded once while the table is open, not a part of it for each look-up.
const indexBlockSize = 1 << 20

// Options say how an index is opened.
type Options struct {
	FS    vfs.FS
	Dir   string
	Cache int64 // bytes of blocks kept in RAM
	Files int   // files that it keeps open
	Fresh bool  // make a new one
	Still bool  // do no work of its own: nothing is to be written
	Log   *slog.Logger

	// Room returns no_space when a write could fail, which the database would not
	// survive; nil: there is always room.
	Room func() error
}

// Open opens the index, or makes it.
func Open(o Options) (x *Index, err error) {
	x = &Index{log: o.Log, room: o.Room}
	defer func() {
		if r := recover(); r != nil { // Pebble found what it thinks cannot be
			x, err = nil, fmt.Errorf("open the index: %v: %w", r, pebble.ErrCorruption)
		}
	}()
	blocks := pebble.NewCache(o.Cache + 2*memTableSize) // Pebble takes its write buffers from it
	defer blocks.Unref()                                // the database holds its own reference
	opts := &pebble.Options{
		FS: o.FS, Cache: blocks, ErrorIfNotExists: !o.Fresh,
		FormatMajorVersion: pebble.FormatValueSeparation, // a part of our format: see FORMAT.md
		MemTableSize:       memTableSize, MemTableStopWritesThreshold: 4,
		DisableAutomaticCompactions: o.Still,
		L0CompactionThreshold:       4, L0StopWritesThreshold: 24, MaxOpenFiles: o.Files,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}
	x.broken = pebbledb.Guard(opts, o.Log)
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone }) // digests do not compress
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].IndexBlockSize = indexBlockSize
	}
	db, err := pebble.Open(o.Dir, opts)
	if failed := x.broken.Err(); failed != nil {
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

// Damage is the sticky error when it says that the database is damaged, and has
// to be made anew; nil otherwise.
func (x *Index) Damage() error {
	if err := x.broken.Err(); pebbledb.Damaged(err) {
		return err
	}
	return nil
}

// DiskBytes is the size of the database's files.
func (x *Index) DiskBytes() int64 { return int64(x.db.Metrics().DiskSpaceUsage()) }

// Freeze makes the index refuse every write from now on with err. Nobody uses it
// meanwhile.
func (x *Index) Freeze(err error) { x.room = func() error { return err } }

// Failure is the sticky error, nil while the index takes writes.
func (x *Index) Failure() error {
	err := x.broken.Err()
	if err == nil {
		return nil
	}
	if !x.told.Swap(true) {
		x.log.Error("the index failed; the store only reads until it is opened again", "err", err)
	}
	return meta.WriteError("write the index", err)
}

// Abandon gives up a database that is damaged.
func (x *Index) Abandon() {
	defer func() { _ = recover() }() // Pebble may find more damage
	if x.Failure() == nil {
		_ = x.db.Close() // what it says is not needed
	}
}

// Writable is the sticky error, or no_space when the disk has no room for a
// write: that passes, while a write that failed is the end of the database.
func (x *Index) Writable() error {
	if err := x.Failure(); err != nil || x.room == nil {
		return err
	}
	return x.room()
}

// Close closes the database, or returns why it failed before.
func (x *Index) Close() error {
	if err := x.Failure(); err != nil {
		return err
	}
	return x.db.Close()
}

// apply writes b, which it closes; with sync it is durable, and so is
// everything that was applied before.
func (x *Index) apply(b *pebble.Batch, sync bool) (err error) {
	if err := x.Writable(); err != nil {
		_ = b.Close() // of memory
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			_ = x.broken.Damage(fmt.Errorf("%v", r))
			err = x.Failure()
		}
	}()
	mode := pebble.NoSync
	if sync {
		mode = pebble.Sync
	}
	if err := x.db.Apply(b, mode); err != nil {
		_ = x.broken.Damage(err) // the disk's refusals do not come this way
	}
	if err := x.Failure(); err != nil {
		return err // Pebble takes it for done
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

// drop deletes one key, durably.
func (x *Index) drop(key []byte) error {
	b := x.db.NewBatch()
	if err := b.Delete(key, nil); err != nil {
		return err
	}
	return x.apply(b, true)
}

// Sync makes durable what was applied before.
func (x *Index) Sync() error {
	b := x.db.NewBatch()
	if err := b.LogData(nil, nil); err != nil {
		return err
	}
	return x.apply(b, true)
}

// read returns a key's value, good until done is closed; ok is false when there
// is none.
func (x *Index) read(key []byte) (v []byte, done io.Closer, ok bool, err error) {
	return readFrom(x.db, key)
}

// value returns a copy of a key's value; ok is false when there is none.
func (x *Index) value(key []byte) (v []byte, ok bool, err error) {
	v, done, ok, err := x.read(key)
	if !ok {
		return nil, false, err
	}
	v = append([]byte(nil), v...)
	_ = done.Close() // of memory
	return v, true, nil
}

// has reports whether there is a key.
func (x *Index) has(key []byte) (bool, error) {
	_, done, ok, err := x.read(key)
	if ok {
		_ = done.Close() // of memory
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

// Get returns the entry of root.
func (x *Index) Get(root b3.Root) (meta.Entry, bool, error) { return getFrom(x.db, root) }

// getFrom is get as r has it.
func getFrom(r pebble.Reader, root b3.Root) (meta.Entry, bool, error) {
	var key [1 + b3.Size]byte
	key[0] = keyObject
	copy(key[1:], root[:])
	v, done, ok, err := readFrom(r, key[:])
	if !ok {
		return meta.Entry{}, false, err
	}
	e, err := decodeEntry(root, v)
	_ = done.Close() // of memory
	return e, err == nil, err
}

// Uses fills in the last uses of a page of entries, in order of address.
func (x *Index) Uses(page []meta.Entry) error {
	lower := rootKey(keyUse, page[0].Root)
	upper := append(rootKey(keyUse, page[len(page)-1].Root), 0)
	return x.scan(lower, upper, func(k, v []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x %w", meta.Clip(k), ErrMalformed)
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

// scan hands the keys from lower up to but without upper to use until it says
// stop. The iterator holds files of the index while it runs.
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

// EachEntry hands every object to use, a page at a time, so that use may take its
// time.
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

// EachPin hands every pin to use, with the segment of its record, a page at a
// time.
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

// Pins scans the pins from (root, label) on, in order of both.
func (x *Index) Pins(root b3.Root, label string, use func(p meta.Pin, seg uint64) (more bool)) error {
	return x.pinsFrom(pinKey(root, label), use)
}

func (x *Index) pinsFrom(from []byte, use func(p meta.Pin, seg uint64) (more bool)) error {
	return x.scan(from, []byte{keyPin + 1}, func(k, v []byte) (bool, error) {
		p, seg, err := decodePin(k, v)
		return err == nil && use(p, seg), err
	})
}

// Entries scans the objects from root on.
func (x *Index) Entries(root b3.Root, use func(meta.Entry) (more bool)) error {
	return x.scan(rootKey(keyObject, root), []byte{keyObject + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x %w", meta.Clip(k), ErrMalformed)
		}
		e, err := decodeEntry(b3.Root(k[1:]), v)
		return err == nil && use(e), err
	})
}
