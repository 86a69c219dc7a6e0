package providers

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/sony/gobreaker/v2"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/trace"
)

// MaxProviders bounds the providers that one lookup collects and that an answer
// holds.
const MaxProviders = 32

// lookups asks the DHT for providers: one lookup per root at a time, whose result
// it remembers in the cache.
type lookups struct {
	cfg     Config
	finder  Finder
	joining func() bool
	now     func() time.Time // dates records
	gate    *limits.Gate
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}] // of the finder; open: a lookup that failed is not tried again
	cache   *cache
	m       *metrics
	guard   func(func() error) error // Pool.Guard

	mu     sync.Mutex
	active map[flight]*lookup
}

// flight names a lookup that others may join.
type flight struct {
	root  b3.Root
	fresh bool
}

// lookup is one search for providers of a root. Its users read what it finds
// while it runs.
type lookup struct {
	flight
	find     FindOptions
	search   *trace.ActiveSearch // its record
	cancel   context.CancelFunc  // nil: it had ended before it was asked for
	users    int                 // guarded by lookups.mu; at zero the search is canceled
	returned chan struct{}       // closed when the finder has returned, which may be long after ended

	mu      sync.Mutex
	result  searched      // found grows while the search runs; the rest is set at its end
	changed chan struct{} // closed and replaced when found or ended change
	ended   bool
	failure error // the last error of the finder, until the search ended
}

func newLookups(cfg Config, d Deps, m *metrics, c *cache, guard func(func() error) error) *lookups {
	l := &lookups{
		cfg: cfg, finder: d.Finder, joining: d.Joining, now: d.Now, cache: c, m: m, guard: guard,
		active: map[flight]*lookup{},
		gate: d.Limits.NewGate(limits.Spec{
			Name:   "resolver.lookups",
			Path:   "resolver → DHT lookups",
			Policy: "512 wait, the rest are refused with busy",
		}, cfg.Lookups, lookupsWaiting),
	}
	settings := breakerSettings(cfg, func(gobreaker.State) {})
	settings.IsSuccessful = func(err error) bool { return !retriable(err) }
	settings.IsExcluded = func(err error) bool { return status.Of(err) == status.Canceled }
	l.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	return l
}

// lookupsWaiting bounds the lookups that wait for one of Config.Lookups places.
const lookupsWaiting = 512

// join returns a lookup of root that has found, or may still find, at least want
// providers: the cached one unless opt.Fresh, the one in flight, or a new one that
// runs as one of tasks. When so many lookups wait that a new one would be refused, it
// is one that has ended with busy. A lookup with a trace is always new and not shared. t,
// which may be nil, records which it is. The caller calls leave once.
func (l *lookups) join(tasks Tasks, root b3.Root, opt FindOptions, want int, t *trace.Lookup) *lookup {
	if !opt.Fresh && opt.Trace == nil {
		if c := l.cache.searched(root); c != nil && (c.complete || c.err != nil || len(c.found) >= want) {
			l.m.hits.Inc()
			c.note(t)
			return &lookup{flight: flight{root: root}, result: *c, ended: true}
		}
	}
	s, ctx, err := l.enter(tasks, root, opt, t)
	if err != nil {
		l.m.misses.Inc()
		return refused(root, err, t)
	}
	t.Search(s.search, ctx == nil)
	if ctx == nil {
		l.m.joined.Inc()
		return s
	}
	l.m.misses.Inc()
	if !tasks.Go(func() { l.run(ctx, tasks, s) }) {
		l.deactivate(s)
		close(s.returned)
		s.end(searched{err: ErrDraining})
	}
	return s
}

// refused returns a lookup that has ended with err before it began. t records it.
func refused(root b3.Root, err error, t *trace.Lookup) *lookup {
	t.Failed(trace.DHT, 0, err)
	return &lookup{flight: flight{root: root}, result: searched{err: err}, ended: true}
}

// enter adds a user to the lookup of root. ctx is nil unless the lookup is new and
// the caller must run it. It returns busy if a new one would be refused: under load a
// refusal must cost much less than a goroutine that asks for a place and is refused.
func (l *lookups) enter(
	tasks Tasks, root b3.Root, opt FindOptions, t *trace.Lookup,
) (s *lookup, ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := flight{root, opt.Fresh}
	if s := l.active[key]; s != nil && opt.Trace == nil {
		s.users++
		return s, nil, nil
	}
	if err := l.gate.Full(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(tasks.Context(), l.cfg.Deadline)
	opt.asked = map[peer.ID]struct{}{}
	s = &lookup{
		flight: key, find: opt, search: trace.NewSearch(trace.Key{Root: root}, t), cancel: cancel, users: 1,
		changed: make(chan struct{}), returned: make(chan struct{}),
	}
	if opt.Trace == nil {
		l.active[key] = s
	}
	return s, ctx, nil
}

// leave removes a user. The search ends with its last user; what it found is
// cached all the same.
func (l *lookups) leave(s *lookup) {
	if s.cached() {
		return
	}
	l.mu.Lock()
	s.users--
	last := s.users == 0
	if last && l.active[s.flight] == s {
		delete(l.active, s.flight)
	}
	l.mu.Unlock()
	if last {
		s.cancel()
	}
}

// run searches until the finder has ended or ctx ends. A finder that does not heed
// ctx keeps its permit and its goroutine until it returns; the lookup ends without
// it.
func (l *lookups) run(ctx context.Context, tasks Tasks, s *lookup) {
	defer s.cancel()
	start := time.Now()
	ended := make(chan error, 1)
	if !tasks.Go(func() {
		defer close(s.returned)
		ended <- l.guard(func() error { return l.search(ctx, s) })
	}) {
		close(s.returned)
		ended <- ErrDraining
	}
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		default:
			err = ctx.Err()
		}
	}
	l.finish(ctx, s, err)
	l.m.lookedUp(start)
}

// finish ends the lookup for its users and remembers its result. err is the error
// of the search.
func (l *lookups) finish(ctx context.Context, s *lookup, err error) {
	found, failure := s.state()
	deadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	complete := err == nil
	ttl := l.cfg.NegativeTTL
	remember := err == nil || deadline
	switch {
	case len(found) > 0:
		err, ttl, remember = nil, l.cfg.PositiveTTL, true
	case deadline && status.Of(failure) == status.NoBootstrap:
		err, remember = failure, false
	case deadline:
		l.m.deadlineHits.Inc()
		err = status.Errorf(status.Timeout, "no provider found within %s", l.cfg.Deadline)
	}
	now := time.Now()
	result := searched{
		found: found, complete: complete, err: err, at: now, by: s.search.By(),
		expires: now.Add(lifetime(ttl, found, l.now())),
	}
	// A failure of this node says nothing of the network and is not cached.
	if remember && s.find.Trace == nil {
		l.cache.addSearch(s.root, &result)
	}
	l.deactivate(s) // after it is in the cache, so that nobody starts another one between the two
	s.end(result)
}

// deactivate removes s from the lookups in flight.
func (l *lookups) deactivate(s *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active[s.flight] == s {
		delete(l.active, s.flight)
	}
}

// search asks the finder, and asks it again when it failed in a way that may pass
// (SPEC §2). It returns nil when the finder knows no others.
func (l *lookups) search(ctx context.Context, s *lookup) error {
	release, err := l.gate.Acquire(ctx)
	if err != nil {
		s.search.Walked(trace.Walk{})
		return err
	}
	defer release()
	for try := 1; ; {
		judge, _ := l.breaker.Allow()
		err := l.ask(ctx, s)
		if judge != nil {
			judge(err)
		}
		if err == nil || ctx.Err() != nil || !retriable(err) || !s.failed(err) {
			return err
		}
		pause := limits.Backoff(0)
		if status.Of(err) != status.NoBootstrap || !l.joining() { // else it waits for the first peer
			if try == maxTries || l.breaker.State() == gobreaker.StateOpen {
				return err
			}
			pause = limits.Backoff(try - 1)
			try++
		}
		l.m.resolveRetries.Inc()
		if limits.Sleep(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// maxTries is how often the finder is asked in one lookup (SPEC §2).
const maxTries = 3

// retriable reports whether a lookup that failed with err is tried again.
func retriable(err error) bool {
	switch status.Of(err) {
	case status.Timeout, status.TransportDown, status.NoBootstrap:
		return true
	}
	return false
}

// ask adds what the finder yields to s. It returns the finder's last error.
func (l *lookups) ask(ctx context.Context, s *lookup) error {
	opt := s.find
	if opt.Limit <= 0 {
		opt.Limit = MaxProviders
	}
	if opt.Trace == nil {
		opt.Trace = &probes.Trace{}
	}
	defer func() { s.search.Walked(WalkOf(opt.Trace)) }()
	var last error
	for p, err := range l.finder.FindProviders(ctx, s.root, opt) {
		if err != nil {
			last = err
			continue
		}
		if s.add(p) >= MaxProviders {
			return nil
		}
	}
	if last == nil {
		last = ctx.Err()
	}
	return last
}

// state returns what was found so far and the last error of the finder.
func (s *lookup) state() (found []record.Provider, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.result.found
	return found[:len(found):len(found)], s.failure
}

// add appends a provider, unless the search has ended, and returns how many s has.
func (s *lookup) add(p record.Provider) int {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return MaxProviders
	}
	p.Origin = cmp.Or(p.Origin, record.OriginDHT)
	s.result.found = append(s.result.found, p)
	n := len(s.result.found)
	wake := s.changed
	s.changed = make(chan struct{})
	s.mu.Unlock()
	close(wake)
	return n
}

// failed records an error of the finder. It reports whether another try is worth
// it: nothing was found yet.
func (s *lookup) failed(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	return len(s.result.found) == 0
}

// end marks the search as ended and wakes its users.
func (s *lookup) end(result searched) {
	s.search.End(len(result.found), result.err)
	s.mu.Lock()
	s.ended, s.result = true, result
	wake := s.changed
	s.mu.Unlock()
	close(wake)
}

// read returns the providers from the i-th on that were found so far. changed is
// closed when there are more or the search has ended; it is nil when it has ended.
func (s *lookup) read(i int) (found []record.Provider, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		changed = s.changed
	}
	found = s.result.found
	return found[i:len(found):len(found)], changed
}

// outcome returns how the search ended. It is valid when read has returned no
// channel.
func (s *lookup) outcome() searched {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result
}

// cached reports whether the lookup had ended before it was asked for: it was remembered, or refused.
func (s *lookup) cached() bool { return s.cancel == nil }

// at waits for the i-th provider. ok is false when the search ended before it;
// err is then the search's or ctx's.
func (s *lookup) at(ctx context.Context, i int) (p record.Provider, ok bool, err error) {
	for {
		found, changed := s.read(i)
		switch {
		case len(found) > 0:
			return found[0], true, nil
		case changed == nil:
			return record.Provider{}, false, s.outcome().err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return record.Provider{}, false, ctx.Err()
		}
	}
}

// trace returns the trace of the finder once it has returned, at the latest when
// ctx ends. It is nil when the finder still runs.
func (s *lookup) trace(ctx context.Context) *probes.Trace {
	select {
	case <-s.returned:
		return s.find.Trace
	default:
	}
	select {
	case <-s.returned:
		return s.find.Trace
	case <-ctx.Done():
		return nil
	}
}
