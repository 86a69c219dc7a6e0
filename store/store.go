package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/arriving/partial"
	"allium/store/arriving/resumable"
	"allium/store/cache"
	"allium/store/gc"
	"allium/store/lease"
	"allium/store/meta"
	"allium/store/moved"
	"allium/store/objects"
	"allium/store/pins"
	"allium/store/quota"
	"allium/store/scrub"
	"allium/store/uses"
)

// Deps holds the dependencies of a Store. Every field may be nil or zero.
type Deps struct {
	env.Env

	Hash *b3.HashQueue // limits how many groups reads and checks hash at once
	FS   vfs.FS        // file system of the embedded and the s3 backend; nil is the machine's

	// Files is the number of file descriptors that the caches of open files may use together, from MinOpenFiles to
	// MaxOpenFiles. 0 is MaxOpenFiles.
	Files int

	// Damaged is called with an object whose stored bytes are wrong, after the
	// object was marked. It must not block.
	Damaged func(root b3.Root)

	// Filter is asked before an object becomes visible. Nil allows every object. The store
	// keeps and serves a denied object that it already has; callers must check.
	Filter policy.Filter

	// MayExpire reports whether this machine's clock is right, so that expired
	// uploads may be removed. Nil is always true. It must not block.
	MayExpire func() bool
}

// The types of a store's parts, under the names that callers of a Store use.
type (
	// Info describes one object.
	Info = objects.Info
	// Object is an open object.
	Object = objects.Object
	// PinOptions are the options of one pin.
	PinOptions = pins.Options
	// Pinning is one pin of PinAll.
	Pinning = pins.Pinning
)

// Store is a set of verified objects. Its methods are safe for concurrent use.
// They return ErrNotReady until Run calls ready, and ErrDraining once the
// context of Run ends. Operations admitted before that are finished.
type Store struct {
	*objects.Objects // what reads
	*pins.Keeper     // pins and their targets

	cfg    Config
	log    *slog.Logger
	hash   *b3.HashQueue // may be nil
	filter policy.Filter

	backend   backend
	admission *admission.Control
	leases    *lease.Table
	clock     *meta.Clock
	uses      *uses.Tracker
	gc        *gc.Collector
	quotas    *quota.Quotas
	space     *gc.Account
	ramCache  *cache.RAM       // nil if there is none
	openFiles *cache.OpenFiles // nil if there is none
	scrub     *scrub.Scrubber  // nil if there is none
	puts      *limits.Gate
	uploads   *resumable.Table
	partials  *partial.Table
	moved     *moved.Table
	opener    *objects.Opener

	ran       atomic.Bool  // Run was called
	recovered atomic.Int64 // records and objects that opening has looked at
}

// Run opens the store, calls ready and serves until ctx is done. Then it waits
// for admitted operations, writes what is queued and closes the files. An error
// before ready says why the store cannot be opened; where they apply,
// disk.ErrLocked and disk.ErrVersion are in its chain. Run can be called once.
func (s *Store) Run(ctx context.Context, ready func()) error {
	if s.ran.Swap(true) {
		return errors.New("run the store: Run was called twice")
	}
	if err := s.backend.Open(ctx); err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	if err := s.partials.Load(); err != nil {
		_ = s.backend.Close() // err says more
		return fmt.Errorf("open the store: %w", err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	var backend, jobs sync.WaitGroup
	backend.Go(func() { s.backend.Serve(writing) })
	jobs.Go(func() { s.partials.Serve(serving) })
	s.admission.Open()
	finish := func() error {
		s.admission.Drain() // admitted operations wait for nothing but the backend
		s.openFiles.Close()
		s.partials.Close()
		s.uploads.Close()
		stop()
		jobs.Wait() // the jobs write until they end
		stopWriting()
		backend.Wait()
		if err := s.backend.Close(); err != nil {
			return fmt.Errorf("close the store: %w", err)
		}
		return nil
	}
	if err := s.quotas.CountPins(ctx, s.Pins(ctx)); err != nil {
		return errors.Join(err, finish())
	}
	if err := s.uploads.Load(ctx); err != nil {
		return errors.Join(err, finish())
	}
	running, halt := context.WithCancel(ctx)
	defer halt()
	if !s.backend.ReadOnly() { // these jobs write
		jobs.Go(func() { s.uses.Run(serving, func(err error) { s.logCleanup("note last uses", err) }) })
		jobs.Go(func() { s.uploads.Serve(serving) })
		jobs.Go(func() { s.gc.Serve(serving) })
		jobs.Go(func() { s.scrub.Run(running) })
		jobs.Go(func() { s.moved.Run(running) })
	}
	s.backend.Ready()
	ready()
	select {
	case <-ctx.Done():
		return finish()
	case err := <-s.backend.Refused():
		halt()
		return errors.Join(fmt.Errorf("run the store: %w", err), finish())
	}
}

// AwaitDurable waits while the store restores an object, which can be opened before it is durable. It returns at once
// for any other object, stored or not, and the error of ctx if that ends first.
func (s *Store) AwaitDurable(ctx context.Context, root b3.Root) error { return s.moved.Wait(ctx, root) }

// Collector returns the garbage collector, which knows what protects an object.
func (s *Store) Collector() *gc.Collector { return s.gc }

// Partials returns the table of partial objects.
func (s *Store) Partials() *partial.Table { return s.partials }

// Uploads returns the table of uploads that arrive in pieces.
func (s *Store) Uploads() *resumable.Table { return s.uploads }

// Quotas returns the totals and the quotas of pin labels.
func (s *Store) Quotas() *quota.Quotas { return s.quotas }

// shed closes files that the store keeps open only for speed, and returns how
// many it closed.
func (s *Store) shed() (closed int) {
	if s.admission.Opened() {
		closed = s.backend.Shed()
	}
	return closed + s.openFiles.CloseIdle()
}
