// Package pebbledb opens Pebble databases whose failure does not end the process.
//
// When Pebble cannot go on, it calls Fatalf, panics, or retries a flush forever while
// writers wait. Here each of these is a failure of one database:
//
//   - The first failure is kept ([DB.Err], [DB.Failed]). From then on the database only
//     reads, and no write returns nil.
//   - A write that the disk refuses is a failure. Pebble is told that the write succeeded,
//     and nothing more reaches the disk. So Pebble neither ends the process nor waits, and
//     what was good on disk stays good.
//   - Corruption is a failure, whether a reader or a compaction finds it.
//
// One write: [DB.Apply] fills a batch and gives it to Pebble, whose file system is a
// guardedFS. If the disk refuses, guardedFS sets the Failure and reports success; Apply
// then returns the failure.
//
// The owner closes a failed database and decides about its files. [Damaged] tells files
// that cannot be trusted from a disk that refused a write; in the second case the files can
// be opened again.
package pebbledb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/latch"
)

// ErrNotFound reports that a key has no value.
var ErrNotFound = pebble.ErrNotFound

// ErrClosed reports that the database was closed.
var ErrClosed = errors.New("the database is closed")

// DB is an open database. Its methods are safe for concurrent use, including Close.
type DB struct {
	db      *pebble.DB
	failure *Failure
	durable *pebble.WriteOptions // of a durable write

	calls    latch.Latch // running calls; closed by Close
	panicked atomic.Bool // a call panicked, perhaps while it held a lock of Pebble
}

// Open opens the database in dir. It replaces the logger and the event listener of o and
// wraps its file system. A nil log discards. The error is [Damaged] when the files are the
// reason.
func Open(dir string, o pebble.Options, log *slog.Logger) (_ *DB, err error) {
	d := &DB{durable: pebble.Sync}
	if o.DisableWAL {
		d.durable = pebble.NoSync
	}
	d.failure = Guard(&o, log)
	defer func() {
		if p := recover(); p != nil {
			err = d.failure.Damage(fmt.Errorf("open %s: %v", dir, p))
		}
	}()
	d.db, err = pebble.Open(dir, &o)
	switch {
	case err == nil && d.Err() == nil:
		return d, nil
	case err == nil:
		_ = d.Close() // the failure is the cause
		return nil, d.Err()
	case d.Err() != nil:
		return nil, d.Err() // err is its consequence
	}
	return nil, &Error{Err: err, Damage: !refusedByDisk(err)}
}

// Guard replaces the logger and the event listener of o and wraps its file system, for a
// database that the caller opens itself. The caller checks the failure after opening and
// after each write, and recovers from panics of Pebble. A nil log discards.
func Guard(o *pebble.Options, log *slog.Logger) *Failure {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	f := &Failure{log: log, failed: make(chan struct{})}
	o.FS, o.Logger = guardedFS{o.FS, f}, f
	if o.Experimental.CompactionScheduler == nil {
		// The default one looks for work ten times a second, also in an idle database. Without that a
		// compaction starts after a flush or another compaction, which misses nothing while the
		// concurrency of compactions is fixed.
		o.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	}
	o.EventListener = &pebble.EventListener{
		BackgroundError: f.backgroundError,
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			_ = f.Damage(fmt.Errorf("%s: %w", i.Path, i.Details))
		},
	}
	return f
}

// Err returns the first failure, and nil while there is none.
func (d *DB) Err() error { return d.failure.Err() }

// Failed returns a channel that the first failure closes.
func (d *DB) Failed() <-chan struct{} { return d.failure.failed }

// Get returns a copy of the value of key, or ErrNotFound.
func (d *DB) Get(key []byte) (value []byte, err error) {
	err = d.read(func() error {
		v, done, err := d.db.Get(key)
		if err != nil {
			return err
		}
		value = bytes.Clone(v)
		return done.Close()
	})
	return value, err
}

// Each calls use for the keys in [lower, upper), in order, until use returns false. A nil
// upper means no bound. The slices are valid during the call.
func (d *DB) Each(lower, upper []byte, use func(key, value []byte) (more bool)) error {
	return d.read(func() error {
		it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.ValueAndErr()
			if err != nil {
				return errors.Join(err, it.Close())
			}
			if !use(it.Key(), v) {
				break
			}
		}
		return errors.Join(it.Error(), it.Close())
	})
}

// Apply writes the batch that fill fills, all of it or nothing. With durable it is on disk
// when Apply returns. After an error of fill, nothing is written.
func (d *DB) Apply(durable bool, fill func(*pebble.Batch) error) error {
	return d.write(func() error {
		b := d.db.NewBatch()
		if err := fill(b); err != nil {
			_ = b.Close() // frees memory
			return err
		}
		mode := pebble.NoSync
		if durable {
			mode = d.durable
		}
		if err := d.db.Apply(b, mode); err != nil {
			return d.failure.Damage(err) // a refusal of the disk is the failure already
		}
		return b.Close()
	})
}

// Set writes one value. It is not durable until Sync.
func (d *DB) Set(key, value []byte) error {
	return d.Apply(false, func(b *pebble.Batch) error { return b.Set(key, value, nil) })
}

// Delete deletes one key. It is not durable until Sync.
func (d *DB) Delete(key []byte) error {
	return d.Apply(false, func(b *pebble.Batch) error { return b.Delete(key, nil) })
}

// Sync makes everything written before durable.
func (d *DB) Sync() error {
	if d.durable == pebble.NoSync {
		return d.write(func() error { return nil })
	}
	return d.Apply(true, func(b *pebble.Batch) error { return b.LogData(nil, nil) })
}

// Flush writes the memtables to tables.
func (d *DB) Flush() error { return d.write(func() error { return d.db.Flush() }) }

// Compact rewrites the keys in [lower, upper], so that deleted ones take no space.
func (d *DB) Compact(ctx context.Context, lower, upper []byte) error {
	return d.write(func() error { return d.db.Compact(ctx, lower, upper, false) })
}

// Size returns how many bytes the database takes on disk, 0 when it is closed.
func (d *DB) Size() (n int64) {
	_ = d.run(func() error { n = int64(d.db.Metrics().DiskSpaceUsage()); return nil })
	return n
}

// Close waits for running calls and closes the database. It returns the failure of a failed
// one. A database that panicked cannot be closed: some memory and its open files stay with
// the process, which Abandoned reports.
func (d *DB) Close() error {
	if !d.calls.Close() {
		return ErrClosed
	}
	d.calls.CloseAndWait()
	if d.panicked.Load() {
		return d.Err()
	}
	defer func() {
		if p := recover(); p != nil {
			d.panicked.Store(true)
		}
	}()
	return errors.Join(d.db.Close(), d.Err())
}

// Abandoned reports that Close could not close the database after a panic.
func (d *DB) Abandoned() bool { return d.panicked.Load() }

// read runs f, which only reads. An error of the files is damage.
func (d *DB) read(f func() error) error {
	err := d.run(f)
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrClosed), shortOfResources(err), d.Err() != nil:
		return err
	}
	return d.failure.Damage(err)
}

// write runs f, which changes something. It never succeeds once the database has failed.
func (d *DB) write(f func() error) error {
	if err := d.Err(); err != nil {
		return err
	}
	err := d.run(f)
	if failed := d.Err(); failed != nil {
		return failed // Pebble was told that the write succeeded
	}
	return err
}

// run runs f while the database is open. It turns a panic into a failure.
func (d *DB) run(f func() error) (err error) {
	if !d.calls.Enter() {
		return ErrClosed
	}
	defer d.calls.Leave()
	defer func() {
		if p := recover(); p != nil {
			d.panicked.Store(true)
			err = d.failure.Damage(fmt.Errorf("%v", p))
		}
	}()
	return f()
}

// Error is the failure of a database.
type Error struct {
	Err    error
	Damage bool // the files cannot be trusted
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Damaged reports whether a database failed because its files cannot be trusted. Otherwise
// the disk refused a write, and the files can be opened again.
func Damaged(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Damage
}

// shortOfResources reports whether err says nothing about the disk.
func shortOfResources(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// refusedByDisk reports whether err, of opening, says nothing about the content of the
// files.
func refusedByDisk(err error) bool {
	refusals := []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EAGAIN, syscall.EIO,
	}
	for _, e := range refusals {
		if errors.Is(err, e) {
			return true
		}
	}
	return shortOfResources(err)
}

// Failure keeps the first failure of a database. It is also Pebble's logger.
type Failure struct {
	log    *slog.Logger
	err    atomic.Pointer[Error]
	failed chan struct{}
}

// Err returns the first failure, and nil while there is none.
func (f *Failure) Err() error {
	if e := f.err.Load(); e != nil {
		return e
	}
	return nil
}

func (f *Failure) isSet() bool { return f.err.Load() != nil }

// set keeps e if it is the first failure, and returns the first.
func (f *Failure) set(e *Error) error {
	if f.err.CompareAndSwap(nil, e) {
		close(f.failed)
	}
	return f.err.Load()
}

// Damage reports that the files cannot be trusted, and returns the first failure.
func (f *Failure) Damage(err error) error { return f.set(&Error{Err: err, Damage: true}) }

// diskRefused reports that the disk refused a write.
func (f *Failure) diskRefused(err error) { _ = f.set(&Error{Err: err}) }

// backgroundError takes an error of a flush or a compaction. Pebble repeats those, but
// damaged files stay damaged.
func (f *Failure) backgroundError(err error) {
	if pebble.IsCorruptionError(err) {
		_ = f.Damage(err)
	} else if f.Err() == nil {
		f.log.Warn("cannot compact a database; trying again", "err", err)
	}
}

// Infof implements pebble.Logger. It discards.
func (f *Failure) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (f *Failure) Errorf(format string, args ...any) {
	if f.Err() == nil {
		f.log.Warn("a database reports an error", "err", fmt.Sprintf(format, args...))
	}
}

// Fatalf implements pebble.Logger. It sets a failure, where Pebble expects the process to
// end.
func (f *Failure) Fatalf(format string, args ...any) { _ = f.Damage(fmt.Errorf(format, args...)) }
