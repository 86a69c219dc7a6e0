package tables

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"allium/internal/pebbledb"
	"allium/store/meta"
)

// database is an open Pebble database. After the first failure reads go on and writes are
// refused, as package pebbledb defines; the database is then abandoned instead of closed.
type database struct {
	db            *pebble.DB
	log           *slog.Logger
	checkSpace    func() error // Options.CheckSpace
	failure       *pebbledb.Failure
	failureLogged atomic.Bool
}

// writeBuffer returns the size in bytes of a write buffer of an index that keeps cache bytes of blocks in RAM.
// Writes wait when four of them are not flushed. With 4 MiB the compactions of two million new entries take three
// times the CPU that they take with 8.
func writeBuffer(cache int64) uint64 { return uint64(min(max(cache/2, 2<<20), 8<<20)) }

// indexBlockSize is the size of a table's index block in bytes. One block holds the index
// of a whole table, so it is read and decoded once while the table is open.
const indexBlockSize = 1 << 20

// openDatabase opens the database, or creates it when Options.Fresh is set.
func openDatabase(o Options) (d *database, err error) {
	d = &database{log: o.Log, checkSpace: o.CheckSpace}
	defer func() {
		if r := recover(); r != nil { // Pebble panics on damage that it does not expect
			d, err = nil, fmt.Errorf("open the index: %v: %w", r, pebble.ErrCorruption)
		}
	}()
	buffer := writeBuffer(o.Cache)
	blocks := pebble.NewCache(o.Cache + 2*int64(buffer)) // Pebble allocates write buffers from the cache
	defer blocks.Unref()                                 // the database holds its own reference
	opts := &pebble.Options{
		FS: o.FS, Cache: blocks, ErrorIfNotExists: !o.Fresh,
		FormatMajorVersion: pebble.FormatValueSeparation, // a part of our format: see FORMAT.md
		MemTableSize:       buffer, MemTableStopWritesThreshold: 4,
		DisableAutomaticCompactions: o.NoCompactions,
		L0CompactionThreshold:       4, L0StopWritesThreshold: 24, MaxOpenFiles: o.Files,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}
	d.failure = pebbledb.Guard(opts, o.Log)
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		return pebble.DBCompressionNone // digests do not compress
	})
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].IndexBlockSize = indexBlockSize
	}
	d.db, err = pebble.Open(o.Dir, opts)
	if failed := d.failure.Err(); failed != nil {
		if err == nil {
			_ = d.db.Close() // nothing reaches the disk any more
		}
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Damage returns the failure of the database when its files are damaged and it must be
// rebuilt. Otherwise it returns nil.
func (d *database) Damage() error {
	if err := d.failure.Err(); pebbledb.Damaged(err) {
		return err
	}
	return nil
}

// DiskBytes returns the size of the database's files.
func (d *database) DiskBytes() int64 { return int64(d.db.Metrics().DiskSpaceUsage()) }

// Freeze makes the index refuse every further write with err. It is not safe for concurrent
// use.
func (d *database) Freeze(err error) { d.checkSpace = func() error { return err } }

// Failure returns the error after which the index refuses writes, nil while it accepts
// them. The first call that finds one logs it.
func (d *database) Failure() error {
	err := d.failure.Err()
	if err == nil {
		return nil
	}
	if !d.failureLogged.Swap(true) {
		d.log.Error("the index failed; the store is read-only until it is opened again", "err", err)
	}
	return meta.WriteError("write the index", err)
}

// Abandon closes a damaged database and ignores its errors.
func (d *database) Abandon() {
	defer func() { _ = recover() }() // Pebble may find more damage
	if d.Failure() == nil {
		_ = d.db.Close() // the index is rebuilt
	}
}

// Writable returns the failure of the database, or no_space when there may be too little
// space for a write. Only the second is temporary.
func (d *database) Writable() error {
	if err := d.Failure(); err != nil || d.checkSpace == nil {
		return err
	}
	return d.checkSpace()
}

// Close closes the database. It returns the failure of a failed one, which stays open.
func (d *database) Close() error {
	if err := d.Failure(); err != nil {
		return err
	}
	return d.db.Close()
}

// apply writes and closes b. With sync, b and everything applied before it are durable.
func (d *database) apply(b *pebble.Batch, sync bool) (err error) {
	if err := d.Writable(); err != nil {
		_ = b.Close() // frees memory
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			_ = d.failure.Damage(fmt.Errorf("%v", r))
			err = d.Failure()
		}
	}()
	mode := pebble.NoSync
	if sync {
		mode = pebble.Sync
	}
	if err := d.db.Apply(b, mode); err != nil {
		_ = d.failure.Damage(err) // a refusal of the disk is the failure already
	}
	if err := d.Failure(); err != nil {
		return err // Pebble was told that the write succeeded
	}
	return b.Close()
}

// Sync makes everything that was applied before durable.
func (d *database) Sync() error {
	b := d.db.NewBatch()
	if err := b.LogData(nil, nil); err != nil {
		return err
	}
	return d.apply(b, true)
}

// scan calls use for the keys in [lower, upper), in order, until use returns false or an
// error. The iterator holds files of the index until then.
func (d *database) scan(lower, upper []byte, use func(key, value []byte) (more bool, err error)) error {
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
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
