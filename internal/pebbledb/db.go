// Package pebbledb opens Pebble databases whose failure does not end the
// process.
//
// Pebble ends the process when it cannot go on: it calls Fatalf, panics, or
// retries a flush for ever while writers wait for it. Here each of these is a
// failure of one database, and there is one policy for all of them:
//
//   - The first failure is kept ([DB.Err], [DB.Failed]). From then on the database
//     only reads, and no write returns nil.
//   - A write that the disk refused is such a failure. Pebble itself is told that it
//     succeeded, and nothing more reaches the disk: so Pebble neither ends the
//     process, nor waits, nor changes what was good on disk.
//   - Corruption is one too, whether a reader or a compaction finds it.
//
// A failed database is closed by its owner, who decides what becomes of the files:
// [Damaged] tells files that cannot be trusted from a disk that took no more
// writes, whose files are good and can be opened again.
package pebbledb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNotFound reports that a key has no value.
var ErrNotFound = pebble.ErrNotFound

// ErrClosed reports that the database was closed.
var ErrClosed = errors.New("the database is closed")

// DB is an open database. Its methods are safe for concurrent use, Close too.
type DB struct {
	db   *pebble.DB
	f    *Failure
	mode *pebble.WriteOptions // of a durable write

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // added to while mu is held
	stuck  atomic.Bool    // a call panicked, perhaps while it held a lock of Pebble
}

// Open opens the database in dir with options o, of which it sets the file
// system's wrapper, the logger and the event listener. A nil log discards. The
// error is [Damaged] when the files are the reason.
func Open(dir string, o pebble.Options, log *slog.Logger) (_ *DB, err error) {
	d := &DB{mode: pebble.Sync}
	if o.DisableWAL {
		d.mode = pebble.NoSync
	}
	d.f = Guard(&o, log)
	defer func() {
		if p := recover(); p != nil {
			err = d.f.Damage(fmt.Errorf("open %s: %v", dir, p))
		}
	}()
	d.db, err = pebble.Open(dir, &o)
	switch {
	case err == nil && d.Err() == nil:
		return d, nil
	case err == nil:
		_ = d.Close() // the failure says more
		return nil, d.Err()
	case d.Err() != nil:
		return nil, d.Err() // what came after it follows from it
	}
	return nil, &Error{Err: err, Damage: !refusedByDisk(err)}
}

// Guard sets the file system's wrapper, the logger and the event listener of o, for
// a database that the caller opens and uses itself: it looks at the failure after
// opening and after each write, and recovers from panics of Pebble. A nil log
// discards.
func Guard(o *pebble.Options, log *slog.Logger) *Failure {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	f := &Failure{log: log, failed: make(chan struct{})}
	o.FS, o.Logger = guardedFS{o.FS, f}, f
	o.EventListener = &pebble.EventListener{
		BackgroundError: f.background,
		DataCorruption:  func(i pebble.DataCorruptionInfo) { _ = f.Damage(fmt.Errorf("%s: %w", i.Path, i.Details)) },
	}
	return f
}

// Err returns the first failure, nil while the database is good.
func (d *DB) Err() error { return d.f.Err() }

// Failed is closed by the first failure.
func (d *DB) Failed() <-chan struct{} { return d.f.failed }

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

// Each calls use for the keys from lower up to but without upper, in order,
// until it says that it needs no more. A nil upper is the end. What use gets is
// valid during the call.
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

// Apply writes what fill puts into a batch, all of it or nothing; durable has
// it on disk when Apply returns. An error of fill writes nothing.
func (d *DB) Apply(durable bool, fill func(*pebble.Batch) error) error {
	return d.write(func() error {
		b := d.db.NewBatch()
		if err := fill(b); err != nil {
			_ = b.Close() // of memory
			return err
		}
		mode := pebble.NoSync
		if durable {
			mode = d.mode
		}
		if err := d.db.Apply(b, mode); err != nil {
			return d.f.Damage(err) // the disk's refusals do not come this way
		}
		return b.Close()
	})
}

// Set writes one value, not durably.
func (d *DB) Set(key, value []byte) error {
	return d.Apply(false, func(b *pebble.Batch) error { return b.Set(key, value, nil) })
}

// Delete removes one key, not durably.
func (d *DB) Delete(key []byte) error {
	return d.Apply(false, func(b *pebble.Batch) error { return b.Delete(key, nil) })
}

// Sync makes durable what was written before.
func (d *DB) Sync() error {
	if d.mode == pebble.NoSync {
		return d.write(func() error { return nil })
	}
	return d.Apply(true, func(b *pebble.Batch) error { return b.LogData(nil, nil) })
}

// Flush writes what is in memory to tables.
func (d *DB) Flush() error { return d.write(func() error { return d.db.Flush() }) }

// Compact rewrites the keys from lower to upper, so that what was deleted takes
// no room.
func (d *DB) Compact(ctx context.Context, lower, upper []byte) error {
	return d.write(func() error { return d.db.Compact(ctx, lower, upper, false) })
}

// Size is how many bytes the database takes on disk.
func (d *DB) Size() (n int64) {
	_ = d.call(func() error { n = int64(d.db.Metrics().DiskSpaceUsage()); return nil }) // 0 of one that is closed
	return n
}

// Close ends the database after the calls under way. It returns the failure of
// one that failed. One that panicked cannot be closed: then a little memory and
// its open files stay with the process, which Abandoned reports.
func (d *DB) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed {
		return ErrClosed
	}
	d.calls.Wait()
	if d.stuck.Load() {
		return d.Err()
	}
	defer func() {
		if p := recover(); p != nil {
			d.stuck.Store(true)
		}
	}()
	return errors.Join(d.db.Close(), d.Err())
}

// Abandoned reports that Close had to leave the database as it was.
func (d *DB) Abandoned() bool { return d.stuck.Load() }

// read is call for what only reads: an error that is no answer is damage.
func (d *DB) read(f func() error) error {
	err := d.call(f)
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrClosed), shortOfResources(err), d.Err() != nil:
		return err
	}
	return d.f.Damage(err)
}

// write is call for what changes something: it never succeeds once the database
// has failed.
func (d *DB) write(f func() error) error {
	if err := d.Err(); err != nil {
		return err
	}
	err := d.call(f)
	if failed := d.Err(); failed != nil {
		return failed // Pebble takes it for done
	}
	return err
}

// call runs f while the database is open; a panic is a failure.
func (d *DB) call(f func() error) (err error) {
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.calls.Add(1)
	}
	d.mu.Unlock()
	if closed {
		return ErrClosed
	}
	defer d.calls.Done()
	defer func() {
		if p := recover(); p != nil {
			d.stuck.Store(true)
			err = d.f.Damage(fmt.Errorf("%v", p))
		}
	}()
	return f()
}

// Error is why a database failed.
type Error struct {
	Err    error
	Damage bool // the files are not as they were written
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Damaged reports whether a database failed because its files cannot be trusted.
// Otherwise the disk refused a write, and the files can be opened again.
func Damaged(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Damage
}

// shortOfResources reports errors that say nothing of the disk.
func shortOfResources(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// refusedByDisk reports errors of opening that say nothing of what is in the
// files.
func refusedByDisk(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EAGAIN, syscall.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return shortOfResources(err)
}

// Failure is the first failure of a database, and Pebble's logger.
type Failure struct {
	log    *slog.Logger
	err    atomic.Pointer[Error]
	failed chan struct{}
}

// Err returns it, nil while the database is good.
func (f *Failure) Err() error {
	if e := f.err.Load(); e != nil {
		return e
	}
	return nil
}

func (f *Failure) isSet() bool { return f.err.Load() != nil }

// set keeps the first failure and returns it.
func (f *Failure) set(e *Error) error {
	if f.err.CompareAndSwap(nil, e) {
		close(f.failed)
	}
	return f.err.Load()
}

// Damage notes that the files cannot be trusted, and returns the first failure.
func (f *Failure) Damage(err error) error { return f.set(&Error{Err: err, Damage: true}) }

func (f *Failure) refused(err error) { _ = f.set(&Error{Err: err}) }

// background takes an error of a flush or a compaction. Pebble tries those
// again; on damaged files in vain.
func (f *Failure) background(err error) {
	if pebble.IsCorruptionError(err) {
		_ = f.Damage(err)
	} else if f.Err() == nil {
		f.log.Warn("a database could not be compacted; it is tried again", "err", err)
	}
}

// Infof implements pebble.Logger.
func (f *Failure) Infof(string, ...any) {}

// Errorf logs what Pebble could not do.
func (f *Failure) Errorf(format string, args ...any) {
	if f.Err() == nil {
		f.log.Warn("a database reports an error", "err", fmt.Sprintf(format, args...))
	}
}

// Fatalf is a failure; Pebble expects that the process ends with it.
func (f *Failure) Fatalf(format string, args ...any) { _ = f.Damage(fmt.Errorf(format, args...)) }
