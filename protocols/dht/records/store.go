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
	"log/slog"
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
	cfg   Config
	log   *slog.Logger
	m     metrics
	place place

	cur       atomic.Pointer[database] // nil before Run has opened one, and after Run
	renewed   atomic.Uint64
	ramReason atomic.Pointer[error] // why cur is in RAM; nil while it is on disk

	// Only Run uses these.
	closer closer
	retry  retry // of the disk
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
	s := &Store{
		cfg: cfg, log: d.Log, place: place{dir: cfg.Dir, fs: d.FS, log: d.Log}, closer: closer{log: d.Log},
	}
	if d.FS == nil {
		s.place.fs = vfs.Default
	}
	s.place.most.disk, s.place.most.ram, s.retry.first = MaxBytes, MaxRAM, minRetryWait
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
		if db.ram && s.closer.abandoned < maxAbandoned {
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
			db.measure(ctx, s.log)
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
		if s.closer.close(db); db.ram || db.Err() != nil || db.Abandoned() {
			return
		}
		if err := writeClean(s.place.fs, s.cfg.Dir); err != nil {
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
	s.closer.close(db)
	if db.ram || !damaged || time.Now().Before(s.retry.at) {
		s.retry.postpone()
		return nil
	}
	s.retry.at = time.Now().Add(s.retry.wait) // a failure before then is a repeated one
	if err := s.place.setAside(why); err != nil {
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
	s.closer.close(ram)
	s.retry.wait = s.retry.first
	s.log.Info("the records of discovery are kept on disk again", "dir", s.cfg.Dir)
	return nil
}

// toDisk opens the database on disk and makes it the current one. It sets a damaged
// database aside and opens an empty one instead.
func (s *Store) toDisk() error {
	if err := s.place.probe(); err != nil {
		return err
	}
	db, err := s.place.openDisk()
	if pebbledb.Damaged(err) {
		s.m.failures.WithLabelValues(reason(true)).Inc()
		if err = s.place.setAside(err); err == nil {
			db, err = s.place.open(s.cfg.Dir, s.place.fs, false)
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

// toRAM makes an empty database in RAM the current one; why is what Err returns then.
func (s *Store) toRAM(why error) error {
	db, err := s.place.open("records", vfs.NewMem(), true)
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
