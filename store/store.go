package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/bucket"
	"allium/store/cache"
	"allium/store/disk"
	"allium/store/gc"
	"allium/store/lease"
	"allium/store/memory"
	"allium/store/meta"
	"allium/store/partial"
	"allium/store/quota"
	"allium/store/scrub"
	"allium/store/upload"
	"allium/store/uses"
)

// Deps are what a Store uses of its node. Every field may be nil.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  *limits.Registry
	Hash    *b3.HashQueue // that the groups of reads and checks pass; nil: none
	FS      vfs.FS        // the file system of the embedded and the s3 backend; nil is the machine's

	// Files is how many file descriptors the caches of open files may take
	// together, between MinOpenFiles and MaxOpenFiles; 0 is MaxOpenFiles.
	Files int

	// Damaged is told of an object whose stored bytes turned out to be wrong,
	// after it was marked. It must not block.
	Damaged func(root b3.Root)

	// Denied says why an object must not be stored, before it is visible; nil
	// takes all. It must not block. What is stored already stays, and is served by
	// the store: that is for its callers to ask.
	Denied func(root b3.Root) error

	// MayExpire reports whether this machine's clock is right, so that uploads
	// which have expired may be removed; nil: always. It must not block.
	MayExpire func() bool
}

// Store is a set of verified objects. Its methods are safe for concurrent use.
// Before Run has called ready they return ErrNotReady, from the moment its
// context ends ErrDraining; what was admitted before is finished.
type Store struct {
	cfg     Config
	log     *slog.Logger
	hash    *b3.HashQueue // nil: none
	metrics *metrics
	tell    func(root b3.Root)       // Deps.Damaged
	denied  func(root b3.Root) error // Deps.Denied

	backend   backend
	admission *admission.Control
	leases    *lease.Table
	clock     *meta.Clock
	uses      *uses.Tracker
	gc        *gc.Collector
	quotas    *quota.Quotas
	space     *gc.Account
	ramCache  *cache.RAM       // nil: none
	openFiles *cache.OpenFiles // nil: none
	scrub     *scrub.Scrubber  // nil: none
	puts      *limits.Gate
	uploads   *upload.Table

	ran atomic.Bool // Run was called

	partials *partial.Table

	recovered atomic.Int64 // records and objects that opening has looked at
}

// New validates cfg and returns a Store that Run opens.
func New(cfg Config, deps Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Damaged == nil {
		deps.Damaged = func(b3.Root) {}
	}
	if deps.MayExpire == nil {
		deps.MayExpire = func() bool { return true }
	}
	if deps.Denied == nil {
		deps.Denied = func(b3.Root) error { return nil }
	}
	if deps.FS == nil {
		deps.FS = vfs.Default
	}
	if cfg.Backend != BackendMemory && vfs.Root(deps.FS) == vfs.Default {
		// Two ways to name one directory must not be two locks.
		dir, err := filepath.Abs(cfg.Dir)
		if err != nil {
			return nil, fmt.Errorf("store.dir: %w", err)
		}
		cfg.Dir = dir
	}
	s := &Store{
		cfg:       cfg,
		log:       deps.Log,
		hash:      deps.Hash,
		tell:      deps.Damaged,
		denied:    deps.Denied,
		admission: admission.New(),
		clock:     meta.NewClock(time.Now),
		puts: deps.Limits.NewGate(limits.Spec{
			Name: "store.puts", Path: "gateway, add → streaming puts", Policy: "wait, then busy",
		}, cfg.Puts, cfg.PutsWait),
	}
	s.leases = lease.New(s.leaving)
	s.uses = uses.New(s.clock)
	var free func() (free, coming int64, known bool) // of the disk; nil: there is none
	meters := bucket.NewMeters(cfg.S3, deps.Limits, deps.Metrics)
	if cfg.Backend == BackendMemory {
		s.backend = memory.New(int64(cfg.MemoryBytes), s.clock)
	} else {
		o := onDisk(cfg, deps, meters, s.clock)
		o.Recovered, o.Arrived, o.Shed = &s.recovered, s.found, s.shed
		d := disk.New(o)
		s.backend, free = d, d.Free
		var err error
		if s.ramCache, err = cache.NewRAM(int64(cfg.HotBytes)); err != nil {
			return nil, err
		}
		if cfg.Backend == BackendEmbedded { // a bucket's files come and go
			if s.openFiles, err = cache.NewOpenFiles(openFilesOf(deps.Files).objects, deps.Hash, deps.Limits); err != nil {
				return nil, err
			}
		}
	}
	var err error
	s.quotas, err = quota.New(cfg.Quotas, quota.Deps{Backend: s.backend, Metrics: deps.Metrics, Limits: deps.Limits, Node: s.node})
	if err != nil {
		return nil, err
	}
	s.space = gc.NewAccount(bounds(cfg), gc.AccountDeps{
		Backend: s.backend, Admission: s.admission, Registry: deps.Limits, Free: free, RAM: s.RAM,
	})
	s.partials = partial.NewTable(partial.Deps{
		Backend: s.backend, Space: s.space, Leases: s.leases, Admission: s.admission, Clock: s.clock, Log: deps.Log,
		Gate: deps.Limits.NewGate(limits.Spec{
			Name: "store.ingests", Path: "resolver → downloads being written", Policy: "wait, then busy",
		}, cfg.Ingests, cfg.IngestsWait),
		Remote: cfg.Backend == BackendS3, Denied: deps.Denied, CommitSmall: s.keepSmall, CommitLarge: s.commitLarge,
		Damaged: s.becameWhole, CountDamage: func() { s.metrics.integrity.WithLabelValues("partial").Inc() },
	})
	s.uploads = upload.NewTable(upload.Deps{
		Backend: s.backend, Space: s.space, Quotas: s.quotas, Leases: s.leases, Admission: s.admission, Gate: s.puts, Log: deps.Log,
		Limits: deps.Limits, Metrics: deps.Metrics, Most: cfg.Uploads, TTL: cfg.UploadTTL, HashWorkers: cfg.HashWorkers,
		MayExpire: deps.MayExpire, Allowed: s.allowed, Here: s.here, CommitSmall: s.keepSmall, CommitLarge: s.commitLarge,
		Outgrown: s.partials.Outgrown, Pin: s.pinUnlessPinned,
	})
	s.gc = gc.New(gc.Deps{
		Backend: s.backend, Partials: s.partials, Uses: usesOf{s.uses, s}, Leases: s.leases, Admission: s.admission, Account: s.space,
		Clock: s.clock, Log: deps.Log, Metrics: deps.Metrics, Duty: cfg.GCDuty, Entries: s.entries, Pins: s.Pins, Node: s.node,
	})
	s.scrub = s.newScrubber(deps.Metrics)
	s.metrics = newMetrics(deps.Metrics, s)
	return s, nil
}

// newScrubber returns nil for a backend that does not age, or when it is off.
func (s *Store) newScrubber(metrics prometheus.Registerer) *scrub.Scrubber {
	place, ok := s.backend.(scrub.Place)
	if !ok || s.cfg.ScrubRate == 0 {
		return nil
	}
	return scrub.New(scrub.Deps{
		Place: place, Objects: scrubbed{s}, Hash: s.hash, Log: s.log, Metrics: metrics,
		Rate: int64(s.cfg.ScrubRate), Duty: s.cfg.ScrubDuty, Interval: s.cfg.ScrubInterval, Remote: s.cfg.Backend == BackendS3,
	})
}

// bounds are the limits that the configuration sets on what is stored.
func bounds(cfg Config) gc.Limits {
	l := gc.Limits{
		MaxBytes: int64(cfg.MaxBytes), MaxObjects: cfg.MaxObjects, LowWater: cfg.LowWater, ReserveBytes: int64(cfg.ReserveBytes),
		Remote: cfg.Backend == BackendS3,
	}
	if cfg.Backend == BackendMemory {
		l.MemoryBytes = int64(cfg.MemoryBytes)
	}
	return l
}

// onDisk says how the embedded and the s3 backend work.
func onDisk(cfg Config, deps Deps, meters *bucket.Meters, clock *meta.Clock) disk.Options {
	files := openFilesOf(deps.Files)
	o := disk.Options{
		Dir: cfg.Dir, FS: deps.FS, ReserveBytes: cfg.ReserveBytes, SegmentBytes: cfg.SegmentBytes, ZeroAheadBytes: cfg.ZeroAheadBytes,
		CommitBytes: cfg.CommitBytes, CompactRate: cfg.CompactRate, IndexCache: cfg.indexCache(), HashWorkers: cfg.HashWorkers,
		SegmentFiles: files.segments, IndexFiles: files.index, Meters: meters,
		Log: deps.Log, Clock: clock, Limits: deps.Limits, Denied: deps.Denied,
	}
	if cfg.Backend == BackendS3 {
		o.Bucket = &cfg.S3
	}
	return o
}

// Run opens the store, calls ready and serves until ctx is done. Then it lets
// the operations that were admitted finish, writes what is queued and closes
// the files. An error before ready says why the store cannot be opened:
// ErrLocked and ErrVersion are in its chain where they apply. A Store runs once.
func (s *Store) Run(ctx context.Context, ready func()) error {
	if s.ran.Swap(true) {
		return errors.New("store: Run was called twice")
	}
	if err := s.backend.Open(ctx); err != nil {
		return fmt.Errorf("store: open: %w", err)
	}
	if err := s.partials.Load(); err != nil {
		_ = s.backend.Close() // err says more
		return fmt.Errorf("store: open: %w", err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	writing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var backend, wg sync.WaitGroup
	backend.Go(func() { s.backend.Serve(writing) })
	wg.Go(func() { s.partials.Serve(serving) })
	s.admission.Open()
	finish := func() error {
		s.admission.Drain() // what was admitted waits for nothing but the backend
		s.openFiles.Close()
		s.partials.Close()
		s.uploads.Close()
		stop()
		wg.Wait() // they write until they end
		end()
		backend.Wait()
		if err := s.backend.Close(); err != nil {
			return fmt.Errorf("store: close: %w", err)
		}
		return nil
	}
	if err := s.quotas.WeighAll(ctx, s.Pins(ctx)); err != nil {
		return errors.Join(err, finish())
	}
	if err := s.uploads.Load(ctx); err != nil {
		return errors.Join(err, finish())
	}
	running, halt := context.WithCancel(ctx)
	defer halt()
	if d, ok := s.backend.(*disk.Backend); !ok || !d.Frozen() { // else nothing is written
		wg.Go(func() { s.keepUses(serving) })
		wg.Go(func() { s.uploads.Serve(serving) })
		wg.Go(func() { s.gc.Serve(serving) })
		wg.Go(func() { s.scrub.Run(running) })
	}
	s.backend.Ready()
	ready()
	select {
	case <-ctx.Done():
		return finish()
	case err := <-s.backend.Refused():
		halt()
		return errors.Join(fmt.Errorf("store: %w", err), finish())
	}
}

// enter admits one operation on the backend; leave ends it.
func (s *Store) enter() error { return s.admission.Enter() }

// admit is enter for an operation that ends with its context.
func (s *Store) admit(ctx context.Context) error { return s.admission.EnterContext(ctx) }

func (s *Store) leave() { s.admission.Leave() }

// find returns the entry of a visible object. Whoever holds a lease on root and
// is answered keeps the object: a removal that was under way is seen here.
func (s *Store) find(root b3.Root) (meta.Entry, bool, error) {
	if s.leases.Removing(root) {
		return meta.Entry{}, false, nil
	}
	return s.backend.Get(root)
}

// Collector runs garbage collections and knows what keeps an object.
func (s *Store) Collector() *gc.Collector { return s.gc }

// Partials are the objects of which a part is here.
func (s *Store) Partials() *partial.Table { return s.partials }

// Uploads are the objects that come in pieces.
func (s *Store) Uploads() *upload.Table { return s.uploads }

// Quotas counts what the labels of pins lead to.
func (s *Store) Quotas() *quota.Quotas { return s.quotas }

// here reports whether root is visible and not known to be damaged.
func (s *Store) here(root b3.Root) (bool, error) {
	e, ok, err := s.backend.Get(root)
	return ok && !e.Corrupt, err
}

// Recovered is how many records and objects a recovery that runs has looked at. It
// grows while Run opens the store.
func (s *Store) Recovered() int64 { return s.recovered.Load() }
