// Package records keeps what discovery would like to have after a restart: the
// provider records of peers, the cycle of the sweep, what is known of seeds.
//
// All of it can be had again, so nothing that becomes of its database stops or
// hinders the node:
//
//   - A database that is damaged, when it is opened or while it is used, is set
//     aside as "<dir>.damaged" (one is kept, an older one is removed), and an empty
//     one takes its place.
//   - While the disk takes no writes, an empty database in RAM of at most
//     [MaxRAM] takes its place. The disk is tried again after 5 s, then after twice
//     as long each time, up to 5 minutes; what was on it is good and is used again.
//   - [Store.Renewed] counts these changes: whoever has something to keep writes
//     it again after each.
//
// The database has at most [MaxBytes] on disk, of which records of peers take
// three quarters. What finds no room is refused and counted.
package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	ds "github.com/ipfs/go-datastore"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/pebbledb"
	"allium/protocols/status"
)

// Bounds of the database.
const (
	MaxBytes = 256 << 20 // on disk
	MaxRAM   = 32 << 20  // while the disk takes no writes

	memTable = 1 << 20 // bytes written that are not in a table yet
	cache    = 1 << 20 // bytes of tables in RAM
	tables   = 64      // open files
)

// Times of the store.
const (
	retryFirst   = 5 * time.Second
	retryMost    = 5 * time.Minute
	measureEvery = 10 * time.Second
	compactEvery = 10 * time.Minute // of a full database
	swapWait     = 5 * time.Second  // of a caller, for the database that replaces a failed one
	closeWait    = 10 * time.Second // for a failed database
)

// maxAbandoned bounds the databases that failed so badly that they cannot be
// closed. With that many the rest of the process's life goes by in RAM.
const maxAbandoned = 8

// Config says where the records are.
type Config struct {
	Dir   string
	Peers string // the keys below this one are records of peers
}

// Deps is what the store works with. Each may be nil.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	FS      vfs.FS // nil: the disk's
}

// Store is a datastore that outlives its database. It can be used while Run
// runs, by any number of goroutines; before and after, calls are not_ready.
type Store struct {
	cfg   Config
	log   *slog.Logger
	fs    vfs.FS
	m     metrics
	most  struct{ disk, ram int64 }
	first time.Duration // wait before the disk is tried again

	cur     atomic.Pointer[database] // nil unless Run is between ready and its end
	renewed atomic.Uint64
	why     atomic.Pointer[error] // why cur is in RAM

	// Of Run alone.
	closing   sync.WaitGroup
	abandoned int
	wait      time.Duration // before the next try of the disk
	retry     time.Time     // when that is
	compacted time.Time
}

var _ ds.Batching = (*Store)(nil)

// database is one that the store uses or used.
type database struct {
	*pebbledb.DB
	ram      bool
	most     int64
	size     atomic.Int64  // when it was measured last
	added    atomic.Int64  // since then, about
	replaced chan struct{} // closed when it is the store's no more
}

// New returns a store that has no database yet.
func New(cfg Config, d Deps) *Store {
	s := &Store{cfg: cfg, log: d.Log, fs: d.FS}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	s.most.disk, s.most.ram, s.first = MaxBytes, MaxRAM, retryFirst
	s.m = newMetrics(d.Metrics, s)
	return s
}

// Err is why the records are in RAM, nil while they are on disk.
func (s *Store) Err() error {
	if p := s.why.Load(); p != nil {
		return *p
	}
	return nil
}

// Renewed is how often the database was replaced by another one, which has
// nothing of what was written to the one before.
func (s *Store) Renewed() uint64 { return s.renewed.Load() }

// Run keeps a database open until ctx ends. It fails for no reason that a disk
// can give.
func (s *Store) Run(ctx context.Context, ready func()) error {
	defer s.end()
	s.wait, s.retry = s.first, time.Time{}
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
		var again <-chan time.Time // of the disk
		if db.ram && s.abandoned < maxAbandoned {
			again = time.After(time.Until(s.retry))
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-db.Failed():
			err = s.failed(db)
		case <-again:
			err = s.tryAgain()
		case <-tick.C:
			s.measure(ctx, db)
		}
		if err != nil {
			return err
		}
	}
}

// end closes the database in order: all of it is in tables, whose damage shows,
// and none in a log, whose end nobody can tell from a torn one.
func (s *Store) end() {
	if db := s.cur.Swap(nil); db != nil {
		close(db.replaced)
		if !db.ram {
			_ = db.Flush() // what fails is logged by close
		}
		if s.close(db); db.ram || db.Err() != nil || db.Abandoned() {
			return
		}
		if err := writeClean(s.fs, s.cfg.Dir); err != nil {
			s.log.Warn("the next start cannot tell whether the records of discovery are whole", "dir", s.cfg.Dir, "err", err)
		}
	}
}

// failed replaces a database that can be used no more. The one that is damaged
// is set aside, and its successor is on disk again at once, unless it did not
// last.
func (s *Store) failed(db *database) error {
	why := db.Err()
	damaged := pebbledb.Damaged(why)
	s.m.failures.WithLabelValues(reason(damaged)).Inc()
	if err := s.toRAM(why); err != nil {
		return err
	}
	s.close(db)
	if db.ram || !damaged || time.Now().Before(s.retry) {
		s.later()
		return nil
	}
	s.retry = time.Now().Add(s.wait) // for another failure until then
	if err := s.setAside(why); err != nil {
		s.later()
		return nil //nolint:nilerr // it was logged
	}
	return s.tryAgain()
}

// tryAgain tries the disk.
func (s *Store) tryAgain() error {
	ram := s.cur.Load()
	if err := s.toDisk(); err != nil {
		s.why.Store(&err)
		s.later()
		return nil //nolint:nilerr // it is kept as the reason, and the gate tells it
	}
	s.close(ram)
	s.wait = s.first
	s.log.Info("the records of discovery are kept on disk again", "dir", s.cfg.Dir)
	return nil
}

// later puts the next try of the disk off.
func (s *Store) later() {
	s.retry = time.Now().Add(s.wait)
	s.wait = min(2*s.wait, retryMost)
}

// toDisk opens the database on disk, a new one where the old is damaged, and
// has it used.
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
	s.why.Store(nil)
	s.m.onDisk.Set(1)
	return nil
}

// openDisk opens the database on disk as it is.
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

// toRAM has an empty database in RAM used.
func (s *Store) toRAM(why error) error {
	db, err := s.open("records", vfs.NewMem(), true)
	if err != nil {
		return status.Errorf(status.Internal, "the records of discovery cannot even be kept in RAM: %w", err)
	}
	s.use(db)
	if s.why.Swap(&why) == nil {
		s.log.Warn("the records of discovery are kept in RAM: a restart would lose them until peers announce theirs again. The node goes on, and tries the disk again by itself", "dir", s.cfg.Dir, "err", why)
	}
	s.m.onDisk.Set(0)
	return nil
}

func (s *Store) use(db *database) {
	old := s.cur.Swap(db)
	if old != nil {
		s.renewed.Add(1)
		close(old.replaced)
	}
}

// probe reports whether the disk takes a write, so that no database is opened in
// vain.
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

// setAside renames the database on disk.
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
	s.log.Warn("the records of discovery are damaged: they were set aside and are begun anew. Nothing else is affected; delete the old ones when nobody wants to look at them", "dir", s.cfg.Dir, "aside", aside, "err", why)
	return nil
}

func (s *Store) open(dir string, fs vfs.FS, ram bool) (*database, error) {
	blocks := pebble.NewCache(cache)
	defer blocks.Unref() // the database holds its own reference
	d, err := pebbledb.Open(dir, pebble.Options{
		FS: fs, Cache: blocks, DisableWAL: ram, FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize: memTable, MaxOpenFiles: tables, CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}, s.log)
	if err != nil {
		return nil, err
	}
	db := &database{DB: d, ram: ram, most: s.most.disk, replaced: make(chan struct{})}
	if ram {
		db.most = s.most.ram
	}
	db.size.Store(db.Size())
	return db, nil
}

// close closes a database that is used no more. One that does not end in time
// is left behind.
func (s *Store) close(db *database) {
	done := make(chan struct{})
	s.closing.Go(func() {
		defer close(done)
		if err := db.Close(); err != nil && db.Err() == nil {
			s.log.Warn("the records of discovery were not closed in order", "err", err)
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
		s.log.Error("the records of discovery stay in RAM until the node is restarted: too many of their databases failed in a way that leaves memory behind")
	}
}

// measure looks at how large the database is, and lets go what was deleted when
// it is full.
func (s *Store) measure(ctx context.Context, db *database) {
	if db.gauge(); !db.full(s.peersPart(db)) || time.Since(s.compacted) < compactEvery {
		return
	}
	s.compacted = time.Now()
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if err := db.Compact(ctx, []byte("/"), []byte("0")); err != nil && ctx.Err() == nil {
		return // a failure is told by Failed
	}
	if db.gauge(); !db.full(s.peersPart(db)) {
		return
	}
	s.log.Warn("the records of discovery have reached their bound; further ones are kept in RAM alone", "bytes", db.size.Load(), "most", db.most)
}

func (d *database) gauge() {
	added := d.added.Load()
	d.size.Store(d.Size())
	d.added.Add(-added)
}

// full reports whether there is no room below most bytes.
func (d *database) full(most int64) bool { return d.size.Load()+d.added.Load() >= most }

// peersPart is what records of peers may take of a database.
func (*Store) peersPart(db *database) int64 { return db.most / 4 * 3 }
