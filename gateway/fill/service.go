package fill

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/guard"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/internal/tracing"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Store stores what arrives. It is safe for concurrent use.
type Store interface {
	// Put stores the bytes of r up to io.EOF as one object that nothing pins. It returns bad_digest for bytes that do
	// not hash to o.Expect, and then stores nothing. The caller calls release, which is never nil without an error;
	// the object is not evicted before.
	Put(ctx context.Context, r io.Reader, o PutOptions) (s Stored, release func(), err error)
	// Hold keeps an object from being evicted until release is called. It returns false if the store does not have it
	// whole.
	Hold(ctx context.Context, root b3.Root) (release func(), ok bool)
}

// PutOptions are the options of a put.
type PutOptions struct {
	Expect b3.Root // the address that the bytes must have; zero: any
	Size   int64   // −1: not known
	Watch  Watch
}

// Watch is told how far a put has come.
type Watch interface {
	// Arrived is called when the first n bytes are in file.
	Arrived(file io.ReaderAt, n int64)
	// Closing is called before the file is closed. It returns when nobody reads it.
	Closing()
}

// Stored is an object of the store.
type Stored struct {
	Root b3.Root
	Size int64
}

// Manifests finds what a directory names. Every error carries an outcome.
type Manifests interface {
	// Lookup returns the file at a path below a directory, which key names by its address or a name. keep says for how
	// long that holds. A path that the directory does not have is not_found. With local, nobody is asked, and what is
	// not here is not_found.
	Lookup(ctx context.Context, key, path string, local bool) (file Stored, keep time.Duration, err error)
}

// Deps are the parts of the node that a Service uses. Store is required.
type Deps struct {
	env.Env

	Store     Store
	Records   Records                                 // nil: records are in RAM alone
	Manifests Manifests                               // nil: no source may have a manifest
	Announce  func(ctx context.Context, root b3.Root) // announces an object; nil: nothing is announced
	Audit     policy.Audit                            // nil: nothing is recorded
	Download  *limits.Bandwidth                       // bounds the bytes that arrive per second; nil: no bound
	Resolver  *net.Resolver                           // of the hosts of origins; nil: that of the machine
	UserAgent string                                  // of requests to origins
	Params    Params
}

// Service fills paths of sources. Its methods may be called from any goroutine.
type Service struct {
	live    atomic.Pointer[live]
	deps    Deps
	m       *metrics
	records *table
	queue   workQueue
	pool    pool
	waiters *limits.FairGate[netip.Prefix]
	guard   guard.Guard
	expect  expectations

	mu      sync.Mutex // lock: metadata
	open    bool       // Run runs
	flights map[pathKey]*flight
}

// workQueue has the flights that wait for a worker.
type workQueue struct {
	*limits.FairQueue[netip.Prefix, *flight]
	refused atomic.Bool // it was full, and has not been less than half full since
}

// New returns a Service for the sources of cfg. It returns an error that names the key of a malformed source.
func New(cfg Config, d Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Store == nil {
		return nil, errors.New("live fill needs Deps.Store")
	}
	d.Env.SetDefaults()
	if d.Params == (Params{}) {
		d.Params = DefaultParams()
	}
	s := &Service{deps: d, m: newMetrics(d.Metrics), flights: map[pathKey]*flight{}}
	s.live.Store(&live{})
	s.guard = guard.Guard{Log: d.Log}
	s.pool.resized = make(chan struct{}, 1)
	var err error
	if s.records, err = newTable(d.Records, d.Params.Records, d.Limits, d.Log); err != nil {
		return nil, err
	}
	if s.expect.lru, err = simplelru.NewLRU[string, expectation](d.Params.Expected, nil); err != nil {
		return nil, err
	}
	s.queue.FairQueue = limits.NewFairQueue[netip.Prefix, *flight](d.Limits, limits.Spec{
		Name: "edge.work", Path: "requests for assets → fills",
		Policy: "reject: 429 busy, the client with most first",
	}, d.Params.Waiting, queueRuns(cfg))
	s.waiters = limits.NewFairGate[netip.Prefix](d.Limits, limits.Spec{
		Name: "edge.waiting", Path: "requests for assets → what arrives",
		Policy: "reject: 429 busy; a client has at most a fifth while others are free",
	}, d.Params.Waiters, waitersPart)
	if err := adopt(s, cfg); err != nil {
		s.live.Load().close()
		return nil, err
	}
	return s, nil
}

// queueRuns returns the places of the queue for fills that run. With twice as many as workers, one client alone may
// have all workers, and clients that wait take turns.
func queueRuns(cfg Config) int { return 2 * cfg.Fills }

// Run runs fills until ctx ends. Then those that run end with draining, and so do all who wait.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.setOpen(true)
	s.pool.open(ctx)
	var workers sync.WaitGroup
	hire := func() {
		for range s.pool.hire() {
			workers.Go(func() { s.deps.Tasks.Run(ctx, s.work) })
		}
	}
	hire()
	ready()
	for ctx.Err() == nil {
		select {
		case <-s.pool.resized:
			hire()
		case <-ctx.Done():
		}
	}
	queued := s.setOpen(false)
	workers.Wait()
	for _, f := range queued {
		f.end(nil, nil, errDraining) // those that ran have ended
	}
	s.live.Load().close()
	return nil
}

// setOpen opens or closes the service, and returns the flights that are under way.
func (s *Service) setOpen(open bool) (flights []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
	if open {
		return nil
	}
	for key, f := range s.flights {
		flights = append(flights, f)
		delete(s.flights, key)
	}
	return flights
}

// join returns the flight of want's path, which is want itself if none is under way. The caller calls leave of it. It
// returns busy if the queue is full, and draining while Run does not run.
func (s *Service) join(want *flight) (*flight, error) {
	f, err := s.enter(want)
	if err != nil || f != want {
		return f, err
	}
	shed, err := s.queue.TryPut(f.client, f)
	if err != nil || shed != nil {
		s.queue.refused.Store(true)
	}
	if err != nil {
		s.end(f, nil, nil, err) // others may have joined it meanwhile
	}
	if shed != nil {
		s.end(shed.Item, nil, nil, shed.Err)
	}
	return f, nil
}

// Refuses reports whether new fills are refused: from the first that found the queue full, until half of it is free.
// waiting is the number of fills that wait, of at most capacity.
func (s *Service) Refuses() (waiting, capacity int, refuses bool) {
	return s.queue.Len(), s.deps.Params.Waiting, s.queue.refused.Load() && halfFull(s)
}

func halfFull(s *Service) bool { return 2*s.queue.Len() >= s.deps.Params.Waiting }

// enter joins the flight of want's path, or makes want that flight.
func (s *Service) enter(want *flight) (*flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return nil, errDraining
	}
	f := s.flights[want.key]
	if f == nil {
		f = want
		s.flights[f.key] = f
	}
	f.join()
	return f, nil
}

// end ends a flight. A request that comes later begins another one.
func (s *Service) end(f *flight, r *record, release func(), err error) {
	s.remove(f)
	f.end(r, release, err)
}

func (s *Service) remove(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[f.key] == f {
		delete(s.flights, f.key)
	}
}

// work runs flights of the queue until ctx ends or there are more workers than Config.Fills.
func (s *Service) work(ctx context.Context) {
	for {
		idle, ok := s.pool.stay()
		if !ok {
			return
		}
		f, err := s.queue.Get(idle)
		if err != nil {
			continue // stay knows why
		}
		if !halfFull(s) {
			s.queue.refused.Store(false)
		}
		if now, _ := f.now(); now.ended { // it was put when an earlier Run ended
			s.queue.Done(f.client)
			continue
		}
		end := s.deps.Tasks.Begin(tasks.Fill)
		var r *record
		var release func()
		err = s.guard.Run("a fill panicked", func() (err error) {
			if time.Since(f.queued) > s.deps.Params.Queue {
				s.m.expired.Inc()
				return errQueued
			}
			ctx, span := s.deps.Tracer.Begin(tracing.With(ctx, f.expect.span), "fill")
			defer func() { span.End(err) }()
			r, release, err = s.fill(ctx, f)
			return err
		}, nil)
		if err != nil && ctx.Err() != nil {
			err = errDraining
		}
		end(err)
		s.end(f, r, release, err)
		s.queue.Done(f.client)
		if err == nil && f.source.cfg.Announce && s.deps.Announce != nil {
			// The fill has ended well, and a panic of the announcement must not end its worker.
			_ = s.guard.Run("an announcement panicked", func() error { s.deps.Announce(ctx, r.root); return nil }, nil)
		}
	}
}

// errQueued is the error of a fill that waited too long for a worker.
var errQueued = status.Errorf(status.Timeout, "other fills held all places of edge.fills for too long. Try again later")

// now returns the time that dates records.
func (s *Service) now() time.Time { return s.deps.Now() }

// errOffline is the error of a path that the store does not have, while origins are not asked.
var errOffline = status.Errorf(status.NotFound,
	"cannot fill from the source: edge.mode is offline, and the file is not stored here")
