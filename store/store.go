package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/store/bucket"
)

// Deps are what a Store uses of its node. Every field may be nil.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  *admission.Registry
	FS      vfs.FS // the file system of the embedded and the s3 backend; nil is the machine's

	// Damaged is told of an object whose stored bytes turned out to be wrong,
	// after it was marked. It must not block.
	Damaged func(root b3.Root)

	// Denied says why an object must not be stored, before it is visible; nil
	// takes all. It must not block. What is stored already stays, and is served by
	// the store: that is for its callers to ask.
	Denied func(root b3.Root) error
}

// Store is a set of verified objects. Its methods are safe for concurrent use.
// Before Run has called ready they return ErrNotReady, from the moment its
// context ends ErrDraining; what was admitted before is finished.
type Store struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	tell    func(root b3.Root)       // Deps.Damaged
	denied  func(root b3.Root) error // Deps.Denied
	backend backend
	roots   *roots
	clock   *clock
	touches *touches
	gc      *collector
	quotas  *quotas
	room    room
	hot     *hot      // nil: none
	kept    *kept     // nil: none
	scrub   *scrubber // nil: none
	puts    *admission.Gate
	ingests *admission.Gate
	uploads *uploads

	mu      sync.Mutex
	phase   phase
	active  int                  // operations between enter and leave
	idle    chan struct{}        // closed when draining and active is 0
	stop    chan struct{}        // closed when draining begins
	running map[b3.Root]struct{} // ingests

	partials *partials
}

// phase is where a Store is in its life; it only moves forward.
type phase uint8

const (
	created phase = iota
	opening
	opened
	draining
)

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
		cfg:     cfg,
		log:     deps.Log,
		tell:    deps.Damaged,
		denied:  deps.Denied,
		roots:   newRoots(),
		clock:   newClock(time.Now),
		gc:      newCollector(),
		idle:    make(chan struct{}),
		stop:    make(chan struct{}),
		running: map[b3.Root]struct{}{},

		partials: newPartials(),
		puts: deps.Limits.NewGate(admission.Spec{
			Name: "store.puts", Path: "gateway, add → streaming puts", Policy: "wait, then busy",
		}, cfg.Puts, cfg.PutsWait),
		ingests: deps.Limits.NewGate(admission.Spec{
			Name: "store.ingests", Path: "resolver → downloads being written", Policy: "wait, then busy",
		}, cfg.Ingests, cfg.IngestsWait),
	}
	s.touches = newTouches(s.clock)
	s.uploads = newUploads(cfg.Uploads, deps.Limits)
	limits, err := parseQuotas(cfg.Quotas)
	if err != nil {
		return nil, err
	}
	s.quotas = newQuotas(limits, deps)
	s.room.free = -1
	s.room.waits = deps.Limits.NewGate(admission.Spec{
		Name: "store.room", Path: "puts and downloads → waiting for an eviction to make room", Policy: "no_space",
	}, maxRoomWaits, 0)
	meters := bucket.NewMeters(cfg.S3, deps.Limits, deps.Metrics)
	if cfg.Backend == BackendMemory {
		s.backend = newMemory(int64(cfg.MemoryBytes), s.clock)
	} else {
		s.backend = newDisk(cfg, deps, meters, s.clock)
		if s.hot, err = newHot(int64(cfg.HotBytes)); err != nil {
			return nil, err
		}
		if cfg.Backend == BackendEmbedded { // a bucket's files come and go
			if s.kept, err = newKept(deps.Limits); err != nil {
				return nil, err
			}
		}
		s.roots.leaving = s.leaving
	}
	s.scrub = newScrubber(s)
	s.metrics = newMetrics(deps.Metrics, s)
	return s, nil
}

// Run opens the store, calls ready and serves until ctx is done. Then it lets
// the operations that were admitted finish, writes what is queued and closes
// the files. An error before ready says why the store cannot be opened:
// ErrLocked and ErrVersion are in its chain where they apply. A Store runs once.
func (s *Store) Run(ctx context.Context, ready func()) error {
	if err := s.advance(created, opening); err != nil {
		return err
	}
	if err := s.backend.open(ctx); err != nil {
		return fmt.Errorf("store: open: %w", err)
	}
	if err := s.partials.count(s.backend); err != nil {
		_ = s.backend.close() // err says more
		return fmt.Errorf("store: open: %w", err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	writing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var backend, wg sync.WaitGroup
	backend.Go(func() { s.backend.serve(writing) })
	wg.Go(func() { s.partials.serve(serving) })
	// This cannot fail: only Run moves the phase.
	_ = s.advance(opening, opened)
	finish := func() error {
		s.drain()
		s.kept.close()
		s.partials.close()
		s.uploads.close()
		stop()
		wg.Wait() // they write until they end
		end()
		backend.Wait()
		if err := s.backend.close(); err != nil {
			return fmt.Errorf("store: close: %w", err)
		}
		return nil
	}
	if err := s.weighAll(ctx); err != nil {
		return errors.Join(err, finish())
	}
	if err := s.loadUploads(ctx); err != nil {
		return errors.Join(err, finish())
	}
	wg.Go(func() { s.keepTouches(serving) })
	wg.Go(func() { s.expireUploads(serving) })
	wg.Go(func() { s.evictLoop(serving) })
	running, halt := context.WithCancel(ctx)
	defer halt()
	wg.Go(func() { s.scrub.run(running) })
	ready()
	select {
	case <-ctx.Done():
		return finish()
	case err := <-s.backend.refused():
		halt()
		return errors.Join(fmt.Errorf("store: %w", err), finish())
	}
}

func (s *Store) advance(from, to phase) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != from {
		return fmt.Errorf("store: Run was called twice")
	}
	s.phase = to
	return nil
}

// drain refuses new operations and waits for those that were admitted. None of
// them waits for anything but the backend.
func (s *Store) drain() {
	s.mu.Lock()
	s.phase = draining
	quiet := s.active == 0
	s.mu.Unlock()
	close(s.stop)
	if !quiet {
		<-s.idle
	}
}

// enter admits one operation on the backend; leave ends it.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case opened:
		s.active++
		return nil
	case draining:
		return ErrDraining
	}
	return ErrNotReady
}

func (s *Store) leave() {
	s.mu.Lock()
	s.active--
	last := s.phase == draining && s.active == 0
	s.mu.Unlock()
	if last {
		close(s.idle)
	}
}

// stopping reports whether the store is on its way down.
func (s *Store) stopping() error {
	select {
	case <-s.stop:
		return ErrDraining
	default:
		return nil
	}
}

// find returns the entry of a visible object. Whoever holds a lease on root and
// is answered keeps the object: a removal that was under way is seen here.
func (s *Store) find(root b3.Root) (entry, bool, error) {
	if s.roots.removing(root) {
		return entry{}, false, nil
	}
	return s.backend.get(root)
}
