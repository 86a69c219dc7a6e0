package store

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/arriving/partial"
	"allium/store/arriving/resumable"
	"allium/store/bucket/s3"
	"allium/store/cache"
	"allium/store/disk"
	"allium/store/gc"
	"allium/store/lease"
	"allium/store/meta"
	"allium/store/moved"
	"allium/store/objects"
	"allium/store/pins"
	"allium/store/quota"
	"allium/store/ram/memory"
	"allium/store/scrub"
	"allium/store/uses"
)

// New validates cfg and returns a Store that Run opens.
func New(cfg Config, deps Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	deps = deps.withDefaults()
	cfg, err := cfg.withAbsoluteDir(deps.FS)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg:       cfg,
		log:       deps.Log,
		hash:      deps.Hash,
		filter:    deps.Filter,
		admission: admission.New(),
		clock:     meta.NewClock(time.Now),
		puts: deps.Limits.NewGate(limits.Spec{
			Name: "store.puts", Path: "gateway, add → streaming puts", Policy: "wait, then busy",
		}, cfg.Puts, cfg.PutsWait),
	}
	s.leases = lease.New(func(root b3.Root) { s.opener.Drop(root) })
	diskSpace, err := s.newBackend(deps)
	if err != nil {
		return nil, err
	}
	s.uses = uses.New(uses.Deps{
		Clock: s.clock,
		Write: func(used map[b3.Root]meta.Second) error { return s.backend.Touch(used, uses.WriteAfter) },
		Noted: func(root b3.Root) { s.gc.NoteUse(root) },
	})
	s.moved = moved.New(moved.Deps{Env: deps.Env, Put: s.putAgain})
	integrity := newIntegrity()
	s.opener = objects.NewOpener(objects.Deps{
		Env:     deps.Env,
		Backend: s.backend, Moved: s.moved, Admission: s.admission, Leases: s.leases, Uses: s.uses, Hash: deps.Hash,
		RAM: s.ramCache, Files: s.openFiles, Integrity: integrity, OnDamage: deps.Damaged,
	})
	s.quotas, err = quota.New(cfg.Quotas, quota.Deps{
		Env: deps.Env, Backend: s.backend, Node: s.opener.Directory,
	})
	if err != nil {
		return nil, err
	}
	s.space = gc.NewAccount(gcLimits(cfg), gc.AccountDeps{
		Backend: s.backend, Admission: s.admission, Registry: deps.Limits, Free: diskSpace, RAM: s.RAM,
	})
	s.partials = s.newPartials(deps, integrity)
	s.Objects = objects.New(s.opener, s.partials)
	s.uploads = s.newUploads(deps)
	s.gc = gc.New(gc.Deps{
		Env: deps.Env, Backend: s.backend, Damages: s.backend.Damages, Partials: s.partials, Uses: s.uses,
		Leases: s.leases, Admission: s.admission, Account: s.space, Clock: s.clock,
		Entries: s.opener.Entries, Node: s.opener.Directory,
		Pins: func(ctx context.Context) iter.Seq2[meta.Pin, error] { return s.Pins(ctx) },
	})
	s.Keeper = pins.New(pins.Deps{
		Backend: s.backend, Admission: s.admission, Leases: s.leases, Moved: s.moved, Uses: s.uses, Quotas: s.quotas,
		Collector: s.gc,
	})
	s.scrub = newScrubber(s, deps.Env)
	s.register(deps.Metrics, integrity)
	return s, nil
}

// Reconfigure applies the hot fields of a valid configuration at once. If a bound shrinks, puts and uploads under way
// beyond it go on, and stored objects beyond it are evicted as usual.
func (s *Store) Reconfigure(cfg Config) {
	s.puts.Resize(cfg.Puts)
	s.uploads.Reconfigure(cfg.Uploads, cfg.UploadTTL)
	s.scrub.Reconfigure(cfg.scrubSchedule())
	s.space.SetLimits(gcLimits(cfg))
	s.gc.Wake()
}

func (c Config) scrubSchedule() scrub.Schedule {
	return scrub.Schedule{Rate: int64(c.ScrubRate), Interval: c.ScrubInterval}
}

// withDefaults fills in the fields that must not be nil.
func (d Deps) withDefaults() Deps {
	d.Env.SetDefaults()
	if d.Damaged == nil {
		d.Damaged = func(b3.Root) {}
	}
	if d.MayExpire == nil {
		d.MayExpire = func() bool { return true }
	}
	if d.Filter == nil {
		d.Filter = policy.AllowAll{}
	}
	if d.FS == nil {
		d.FS = vfs.Default
	}
	return d
}

// withAbsoluteDir makes Dir absolute, so that two names of one directory take the
// same lock. It does nothing without a directory on the machine's file system.
func (c Config) withAbsoluteDir(fs vfs.FS) (Config, error) {
	if c.Backend == BackendMemory || vfs.Root(fs) != vfs.Default {
		return c, nil
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("store.dir: %w", err)
	}
	c.Dir = dir
	return c, nil
}

// newBackend sets the backend and its caches. It returns the function that
// measures the space on the disk, nil for the memory backend.
func (s *Store) newBackend(deps Deps) (diskSpace func() (free, coming int64, known bool), err error) {
	meters := s3.NewMeters(s.cfg.S3, deps.Limits, deps.Metrics)
	if s.cfg.Backend == BackendMemory {
		s.backend = memory.New(int64(s.cfg.MemoryBytes), s.clock)
		return nil, nil
	}
	o := diskOptions(s.cfg, deps, meters, s.clock)
	o.Recovered, o.Adopted, o.Shed = &s.recovered, s.noteAdopted, s.shed
	d := disk.New(o)
	s.backend = d
	_, hot := s.cfg.Caches()
	if s.ramCache, err = cache.NewRAM(hot); err != nil {
		return nil, err
	}
	if s.cfg.Backend == BackendEmbedded { // local copies of a bucket's files come and go
		n := openFilesOf(deps.Files).objects
		if s.openFiles, err = cache.NewOpenFiles(n, deps.Hash, deps.Limits); err != nil {
			return nil, err
		}
	}
	return d.Free, nil
}

// diskOptions returns the options of the embedded and the s3 backend.
func diskOptions(cfg Config, deps Deps, meters *s3.Meters, clock *meta.Clock) disk.Options {
	files := openFilesOf(deps.Files)
	index, _ := cfg.Caches()
	o := disk.Options{
		Dir: cfg.Dir, FS: deps.FS, ReserveBytes: cfg.ReserveBytes,
		SegmentBytes: cfg.SegmentBytes, ZeroAheadBytes: cfg.ZeroAheadBytes,
		CommitBytes: cfg.CommitBytes, CompactRate: cfg.CompactRate,
		IndexCache: index, HashWorkers: cfg.HashWorkers,
		SegmentFiles: files.segments, IndexFiles: files.index, Meters: meters,
		Log: deps.Log, Clock: clock, Limits: deps.Limits, Filter: deps.Filter,
	}
	if cfg.Backend == BackendS3 {
		o.Bucket = &cfg.S3
	}
	return o
}

// gcLimits returns the limits that the configuration sets on what is stored.
func gcLimits(cfg Config) gc.Limits {
	l := gc.Limits{
		MaxBytes: int64(cfg.MaxBytes), MaxObjects: cfg.MaxObjects,
		LowWater: cfg.LowWater, Duty: cfg.GCDuty, ReserveBytes: int64(cfg.ReserveBytes),
		LargeInBucket: cfg.Backend == BackendS3,
	}
	if cfg.Backend == BackendMemory {
		l.MemoryBytes = int64(cfg.MemoryBytes)
	}
	return l
}

func (s *Store) newPartials(deps Deps, integrity *prometheus.CounterVec) *partial.Table {
	return partial.NewTable(partial.Deps{
		Env: deps.Env, Backend: s.backend, Space: s.space, Leases: s.leases, Admission: s.admission, Clock: s.clock,
		Gate: deps.Limits.NewGate(limits.Spec{
			Name: "store.ingests", Path: "resolver → downloads being written", Policy: "wait, then busy",
		}, s.cfg.Ingests, s.cfg.IngestsWait),
		ToBucket: s.cfg.Backend == BackendS3, Filter: deps.Filter, Whole: s.opener.Whole,
		CommitSmall: s.storeSmall, CommitLarge: s.commitLarge,
		Damaged:     s.opener.DamagedIfWhole,
		CountDamage: func() { integrity.WithLabelValues("partial").Inc() },
	})
}

func (s *Store) newUploads(deps Deps) *resumable.Table {
	return resumable.NewTable(resumable.Deps{
		Env: deps.Env, Backend: s.backend, Space: s.space, Quotas: s.quotas, Leases: s.leases, Admission: s.admission,
		Gate:    s.puts,
		MaxOpen: s.cfg.Uploads, TTL: s.cfg.UploadTTL, HashWorkers: s.cfg.HashWorkers, MayExpire: deps.MayExpire,
		Allowed: s.allowed, Visible: s.opener.Whole, CommitSmall: s.storeSmall, CommitLarge: s.commitLarge,
		DropPartial: s.partials.DropCompleted, Pin: s.pinUnlessPinned,
	})
}

// newScrubber returns nil for the memory backend, which has no files to check.
func newScrubber(s *Store, e env.Env) *scrub.Scrubber {
	place, ok := s.backend.(scrub.StateStore)
	if !ok {
		return nil
	}
	return scrub.New(scrub.Deps{
		Env: e, State: place, Objects: s.opener, Hash: s.hash,
		Schedule: s.cfg.scrubSchedule(), Duty: s.cfg.ScrubDuty,
		Remote: s.cfg.Backend == BackendS3,
	})
}

// pinUnlessPinned adds a pin that is not recursive. An existing pin with the same
// label stays as it is, even if it is recursive.
func (s *Store) pinUnlessPinned(ctx context.Context, root b3.Root, label string, charge *quota.Charge) error {
	if has, err := s.HasPin(ctx, root, label); err != nil || has {
		return err
	}
	return s.Pin(ctx, root, PinOptions{Label: label, Charge: charge})
}
