package store

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

	"allium/protocols/b3"
)

// index is the database of addresses and pins.
//
// Pebble cannot go on after its log failed: it calls Fatalf, or panics with a
// lock held. Both end here as a sticky error: reads go on, writes are refused,
// and the database is abandoned instead of closed.
type index struct {
	db     *pebble.DB
	log    *slog.Logger
	broken atomic.Pointer[error]
}

// The index's write buffer: two of these at most, before a flush is done.
const memTableSize = 4 << 20

func openIndex(fs vfs.FS, dir string, cache int64, fresh bool, log *slog.Logger) (*index, error) {
	x := &index{log: log}
	blocks := pebble.NewCache(cache)
	defer blocks.Unref() // the database holds its own reference
	opts := &pebble.Options{
		FS: fs, Cache: blocks, Logger: x, ErrorIfNotExists: !fresh,
		FormatMajorVersion: pebble.FormatValueSeparation, // a part of our format: see FORMAT.md
		MemTableSize:       memTableSize, MemTableStopWritesThreshold: 4,
		L0CompactionThreshold: 4, L0StopWritesThreshold: 24, MaxOpenFiles: 256,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
		EventListener:              &pebble.EventListener{BackgroundError: x.backgroundError},
	}
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone }) // digests do not compress
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	x.db = db
	return x, nil
}

// Infof, Errorf and Fatalf implement pebble.Logger.
func (x *index) Infof(format string, args ...any) {}

// Errorf logs what Pebble could not do.
func (x *index) Errorf(format string, args ...any) {
	x.log.Warn("the index reports an error", "err", fmt.Sprintf(format, args...))
}

// Fatalf makes the index read-only.
func (x *index) Fatalf(format string, args ...any) { x.fail(fmt.Errorf(format, args...)) }

func (x *index) backgroundError(err error) {
	x.log.Warn("the index could not be compacted; it is tried again", "err", err)
}

func (x *index) fail(err error) {
	err = writeError("write the index", err)
	if x.broken.CompareAndSwap(nil, &err) {
		x.log.Error("the index failed; the store only reads until it is opened again", "err", err)
	}
}

// failure is the sticky error, nil while the index takes writes.
func (x *index) failure() error {
	if p := x.broken.Load(); p != nil {
		return *p
	}
	return nil
}

func (x *index) close() error {
	if err := x.failure(); err != nil {
		return err
	}
	return x.db.Close()
}

// apply writes b, which it closes; with sync it is durable, and so is
// everything that was applied before.
func (x *index) apply(b *pebble.Batch, sync bool) (err error) {
	if err := x.failure(); err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			x.fail(fmt.Errorf("%v", r))
			err = x.failure()
		}
	}()
	mode := pebble.NoSync
	if sync {
		mode = pebble.Sync
	}
	if err := x.db.Apply(b, mode); err != nil {
		x.fail(err)
	}
	if err := x.failure(); err != nil {
		return err // Fatalf returns, and then Apply says nil
	}
	return b.Close()
}

// set writes one key.
func (x *index) set(key, value []byte, sync bool) error {
	b := x.db.NewBatch()
	if err := b.Set(key, value, nil); err != nil {
		return err
	}
	return x.apply(b, sync)
}

// drop deletes one key, durably.
func (x *index) drop(key []byte) error {
	b := x.db.NewBatch()
	if err := b.Delete(key, nil); err != nil {
		return err
	}
	return x.apply(b, true)
}

// sync makes durable what was applied before.
func (x *index) sync() error {
	b := x.db.NewBatch()
	if err := b.LogData(nil, nil); err != nil {
		return err
	}
	return x.apply(b, true)
}

// read returns a key's value, good until done is closed; ok is false when there
// is none.
func (x *index) read(key []byte) (v []byte, done io.Closer, ok bool, err error) {
	return readFrom(x.db, key)
}

func readFrom(r pebble.Reader, key []byte) (v []byte, done io.Closer, ok bool, err error) {
	v, done, err = r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil, false, nil
	}
	return v, done, err == nil, readError(err)
}

// get returns the entry of root.
func (x *index) get(root b3.Root) (entry, bool, error) { return x.getFrom(x.db, root) }

// getFrom is get as r has it.
func (x *index) getFrom(r pebble.Reader, root b3.Root) (entry, bool, error) {
	var key [1 + b3.Size]byte
	key[0] = keyObject
	copy(key[1:], root[:])
	v, done, ok, err := readFrom(r, key[:])
	if !ok {
		return entry{}, false, err
	}
	e, err := decodeEntry(root, v)
	_ = done.Close() // of memory
	return e, err == nil, err
}

// usedAt is the last use of e.
func (x *index) usedAt(e entry) (second, error) {
	v, done, ok, err := x.read(rootKey(keyUse, e.root))
	if !ok {
		return e.added, err
	}
	used, err := decodeUse(v)
	_ = done.Close() // of memory
	return max(used, e.added), err
}

// uses fills in the last uses of a page of entries, in order of address.
func (x *index) uses(page []entry) error {
	lower := rootKey(keyUse, page[0].root)
	upper := append(rootKey(keyUse, page[len(page)-1].root), 0)
	return x.scan(lower, upper, func(k, v []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x is malformed", clip(k))
		}
		used, err := decodeUse(v)
		for len(page) > 0 && bytes.Compare(page[0].root[:], k[1:]) < 0 {
			page = page[1:]
		}
		if len(page) > 0 && page[0].root == b3.Root(k[1:]) {
			page[0].used = max(page[0].used, used)
		}
		return len(page) > 0, err
	})
}

// pin returns a pin and the segment of its record, as r has it.
func (x *index) pin(r pebble.Reader, root b3.Root, label string) (p Pin, seg uint64, ok bool, err error) {
	key := pinKey(root, label)
	v, done, ok, err := readFrom(r, key)
	if !ok {
		return Pin{}, 0, false, err
	}
	p, seg, err = decodePin(key, v)
	_ = done.Close() // of memory
	return p, seg, err == nil, err
}

// scan hands the keys from lower up to but without upper to use until it says
// stop. The iterator holds files of the index while it runs.
func (x *index) scan(lower, upper []byte, use func(key, value []byte) (more bool, err error)) error {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return readError(err)
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
	return readError(err)
}

// eachEntry and eachPin hand everything there is to use, a page at a time, so
// that use may take its time.
func (x *index) eachEntry(use func(entry) error) error {
	page := make([]entry, 0, pageSize)
	for from, more := (b3.Root{}), true; more; {
		page = page[:0]
		err := x.entries(from, func(e entry) bool {
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
			from, more = next(page[len(page)-1].root)
		}
	}
	return nil
}

func (x *index) eachPin(use func(p Pin, seg uint64) error) error {
	type found struct {
		pin Pin
		seg uint64
	}
	page := make([]found, 0, pageSize)
	for from, more := pinKey(b3.Root{}, ""), true; more; {
		page = page[:0]
		err := x.pins(from, func(p Pin, seg uint64) bool {
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

// pins scans the pins from a key on.
func (x *index) pins(from []byte, use func(p Pin, seg uint64) (more bool)) error {
	return x.scan(from, []byte{keyPin + 1}, func(k, v []byte) (bool, error) {
		p, seg, err := decodePin(k, v)
		return err == nil && use(p, seg), err
	})
}

// entries scans the objects from root on.
func (x *index) entries(root b3.Root, use func(entry) (more bool)) error {
	return x.scan(rootKey(keyObject, root), []byte{keyObject + 1}, func(k, v []byte) (bool, error) {
		if len(k) != 1+b3.Size {
			return false, fmt.Errorf("the index key % x is malformed", clip(k))
		}
		e, err := decodeEntry(b3.Root(k[1:]), v)
		return err == nil && use(e), err
	})
}
