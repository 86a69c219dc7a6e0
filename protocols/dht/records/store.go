// Package records provides a datastore for what discovery keeps across restarts: the
// provider records of peers, the position of the sweep, and what is known of seeds.
//
// Discovery can learn all of this again. So a failure of the database never stops the
// node:
//
//   - When the database is damaged, at opening or later, the store renames it to
//     "<dir>.damaged" and starts an empty one. An older damaged database is removed.
//   - While the disk refuses writes, the store uses an empty database in RAM of at most
//     [MaxRAM]. It tries the disk again after 5 s, then after twice as long each time,
//     up to 5 minutes. The database on disk is intact and is then used again.
//   - [Store.Renewed] counts these replacements. After each, discovery writes again
//     what it wants to keep.
//
// The database takes about [MaxBytes] on disk at most. From three quarters of that on,
// new records of peers are refused; at the bound every new value is. Refused values
// are counted.
//
// One write, step by step: the DHT calls [Store.Put]. apply checks the bounds and
// builds one batch, and do runs it on the current database. If that database fails, do
// waits up to 5 s until Run has replaced it, and tries once more on the new one.
package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	ds "github.com/ipfs/go-datastore"

	"allium/internal/env"
	"allium/internal/pebbledb"
	"allium/protocols/status"
)

// Bounds of the database.
const (
	MaxBytes = 256 << 20 // on disk
	MaxRAM   = 32 << 20  // while the disk takes no writes

	memTable = 256 << 10 // bytes of the memtable; Pebble keeps a second one, and doubles smaller ones up to this size
	merged   = 16        // flushed memtables that are merged into the tables below at a time
	cache    = 1 << 20   // bytes of the block cache
	tables   = 64        // open files
)

// Intervals and time limits of the store.
const (
	minRetryWait = 5 * time.Second
	maxRetryWait = 5 * time.Minute
	measureEvery = 10 * time.Second
	compactEvery = 10 * time.Minute // the shortest time between two compactions of a full database
	swapWait     = 5 * time.Second  // how long a call waits for the database that replaces a failed one
	closeWait    = 10 * time.Second // how long closing, or compacting, a database may take
)

// maxAbandoned bounds the databases that failed so badly that they cannot be
// closed. After that many, the store stays in RAM until the process ends.
const maxAbandoned = 8

// Config says where the records are.
type Config struct {
	Dir   string
	Peers string // prefix of the keys that hold records of peers
}

// Deps holds the dependencies of the store. Each may be nil.
type Deps struct {
	env.Env

	FS vfs.FS // nil: the file system of the machine
}

// Store is a datastore that outlives its database. Any number of goroutines may use it
// while Run runs. Before and after, calls return not_ready.
type Store struct {
	cfg  Config
	log  *slog.Logger
	fs   vfs.FS
	m    metrics
	most struct{ disk, ram int64 } // bytes, see MaxBytes and MaxRAM

	cur       atomic.Pointer[database] // nil before Run has opened one, and after Run
	renewed   atomic.Uint64
	ramReason atomic.Pointer[error] // why cur is in RAM; nil while it is on disk

	// Only Run uses these.
	closing   sync.WaitGroup
	abandoned int
	retry     retry     // of the disk
	compacted time.Time // when a full database was compacted last
}

// retry says when the disk is tried next.
type retry struct {
	first time.Duration // the wait before the first retry
	wait  time.Duration // before the next one
	at    time.Time
}

// postpone sets when the disk is tried next, and doubles the wait after that.
func (r *retry) postpone() {
	r.at = time.Now().Add(r.wait)
	r.wait = min(2*r.wait, maxRetryWait)
}

var _ ds.Batching = (*Store)(nil)

// New returns a store without a database. Run opens one.
func New(cfg Config, d Deps) *Store {
	d.Env.SetDefaults()
	s := &Store{cfg: cfg, log: d.Log, fs: d.FS}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	s.most.disk, s.most.ram, s.retry.first = MaxBytes, MaxRAM, minRetryWait
	s.m = newMetrics(d.Metrics, s)
	return s
}

// Err returns why the records are in RAM, or nil while they are on disk.
func (s *Store) Err() error {
	if p := s.ramReason.Load(); p != nil {
		return *p
	}
	return nil
}

// Renewed returns how often the database was replaced by another one. The new one has
// nothing of what was written to the one before.
func (s *Store) Renewed() uint64 { return s.renewed.Load() }

// Run keeps a database open until ctx ends, and replaces one that fails. It calls ready
// when the first is open. An error of the disk never ends it; it fails only if no
// database can be opened in RAM.
func (s *Store) Run(ctx context.Context, ready func()) error {
	defer s.end()
	s.retry.wait, s.retry.at = s.retry.first, time.Time{}
	if err := s.toDisk(); err != nil {
		if err := s.toRAM(err); err != nil {
			return err
		}
	}
	ready()
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		db := s.cur.Load()
		var retry <-chan time.Time // nil: the disk is not tried again
		if db.ram && s.abandoned < maxAbandoned {
			retry = time.After(time.Until(s.retry.at))
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-db.Failed():
			err = s.failed(db)
		case <-retry:
			err = s.retryDisk()
		case <-tick.C:
			s.measure(ctx, db)
		}
		if err != nil {
			return err
		}
	}
}

// end closes the database. It first flushes everything into tables, because damage to
// a table is detected; a write-ahead log that was cut short looks complete.
func (s *Store) end() {
	if db := s.cur.Swap(nil); db != nil {
		close(db.replaced)
		if !db.ram {
			_ = db.Flush() // close logs a failure
		}
		if s.close(db); db.ram || db.Err() != nil || db.Abandoned() {
			return
		}
		if err := writeClean(s.fs, s.cfg.Dir); err != nil {
			s.log.Warn("the next start cannot tell whether the records of discovery are whole",
				"dir", s.cfg.Dir, "err", err)
		}
	}
}

// failed replaces a database that has failed. The store goes on in RAM first. A damaged
// database is set aside, and the disk is tried at once with an empty one. If a database
// fails again within retry.wait after that, the disk is tried only after retry.wait.
func (s *Store) failed(db *database) error {
	why := db.Err()
	damaged := pebbledb.Damaged(why)
	s.m.failures.WithLabelValues(reason(damaged)).Inc()
	if err := s.toRAM(why); err != nil {
		return err
	}
	s.close(db)
	if db.ram || !damaged || time.Now().Before(s.retry.at) {
		s.retry.postpone()
		return nil
	}
	s.retry.at = time.Now().Add(s.retry.wait) // a failure before then is a repeated one
	if err := s.setAside(why); err != nil {
		s.retry.postpone()
		return nil //nolint:nilerr // setAside has logged it
	}
	return s.retryDisk()
}

// retryDisk goes back from RAM to the disk. If it cannot, it notes why and postpones the
// next retry.
func (s *Store) retryDisk() error {
	ram := s.cur.Load()
	if err := s.toDisk(); err != nil {
		s.ramReason.Store(&err)
		s.retry.postpone()
		return nil //nolint:nilerr // Err returns it
	}
	s.close(ram)
	s.retry.wait = s.retry.first
	s.log.Info("the records of discovery are kept on disk again", "dir", s.cfg.Dir)
	return nil
}

// toDisk opens the database on disk and makes it the current one. It sets a damaged
// database aside and opens an empty one instead.
func (s *Store) toDisk() error {
	if err := s.probe(); err != nil {
		return err
	}
	db, err := s.openDisk()
	if pebbledb.Damaged(err) {
		s.m.failures.WithLabelValues(reason(true)).Inc()
		if err = s.setAside(err); err == nil {
			db, err = s.open(s.cfg.Dir, s.fs, false)
		}
	}
	if err != nil {
		return err
	}
	s.use(db)
	s.ramReason.Store(nil)
	s.m.onDisk.Set(1)
	return nil
}

// openDisk opens the database on disk. Damage is a pebbledb.Error.
func (s *Store) openDisk() (*database, error) {
	damage, err := checkClean(s.fs, s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	if damage != nil {
		return nil, &pebbledb.Error{Err: damage, Damage: true}
	}
	return s.open(s.cfg.Dir, s.fs, false)
}

// toRAM makes an empty database in RAM the current one; why is what Err returns then.
func (s *Store) toRAM(why error) error {
	db, err := s.open("records", vfs.NewMem(), true)
	if err != nil {
		return status.Errorf(status.Internal, "the records of discovery cannot even be kept in RAM: %w", err)
	}
	s.use(db)
	if s.ramReason.Swap(&why) == nil {
		s.log.Warn("the records of discovery are kept in RAM: a restart would lose them until peers announce theirs "+
			"again. The node goes on and retries the disk by itself", "dir", s.cfg.Dir, "err", why)
	}
	s.m.onDisk.Set(0)
	return nil
}

// use makes db the current database.
func (s *Store) use(db *database) {
	old := s.cur.Swap(db)
	if old != nil {
		s.renewed.Add(1)
		close(old.replaced)
	}
}

// probe returns an error if the disk refuses a write of memTable bytes.
func (s *Store) probe() (err error) {
	if err := s.fs.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return err
	}
	name := s.fs.PathJoin(s.cfg.Dir, "probe")
	f, err := s.fs.Create(name, "records-probe")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, memTable))
	return errors.Join(err, f.Sync(), f.Close(), s.fs.Remove(name))
}

// setAside renames the damaged database on disk, removes an older one that was set aside,
// and makes an empty directory in its place.
func (s *Store) setAside(why error) error {
	aside := s.cfg.Dir + ".damaged"
	err := s.fs.RemoveAll(aside)
	if err == nil {
		err = s.fs.Rename(s.cfg.Dir, aside)
	}
	if err == nil {
		err = s.fs.MkdirAll(s.cfg.Dir, 0o700)
	}
	if err != nil {
		s.log.Warn("the damaged records of discovery cannot be set aside", "dir", s.cfg.Dir, "err", err, "damage", why)
		return fmt.Errorf("set the damaged records aside: %w", err)
	}
	s.log.Warn(
		"the records of discovery are damaged: they were set aside, and the node starts with none. Nothing else "+
			"is affected. Delete the directory that was set aside when nobody needs it",
		"dir", s.cfg.Dir, "aside", aside, "err", why)
	return nil
}

// close closes a database that the store has stopped using. It waits up to closeWait. A
// database that is not closed by then, or that cannot be closed, counts as abandoned.
func (s *Store) close(db *database) {
	done := make(chan struct{})
	s.closing.Go(func() {
		defer close(done)
		if err := db.Close(); err != nil && db.Err() == nil {
			s.log.Warn("the database of the records of discovery could not be closed cleanly", "err", err)
		}
	})
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-done:
		if !db.Abandoned() {
			return
		}
	case <-late.C:
	}
	if s.abandoned++; s.abandoned == maxAbandoned {
		s.log.Error(
			"the records of discovery stay in RAM until the node is restarted: too many of their databases failed " +
				"in a way that leaves memory behind")
	}
}

// measure measures the database. If it is full, measure compacts it, at most once in
// compactEvery, to free what was deleted.
func (s *Store) measure(ctx context.Context, db *database) {
	if db.gauge(); !db.full(s.peersPart(db)) || time.Since(s.compacted) < compactEvery {
		return
	}
	s.compacted = time.Now()
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if err := db.Compact(ctx, []byte("/"), []byte("0")); err != nil && ctx.Err() == nil {
		return // Run sees the failure through Failed
	}
	if db.gauge(); !db.full(s.peersPart(db)) {
		return
	}
	s.log.Warn("the records of discovery have reached their bound; further ones are kept in RAM alone", "bytes",
		db.size.Load(), "most", db.most)
}
