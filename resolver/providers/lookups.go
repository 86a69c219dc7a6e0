package providers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/sony/gobreaker/v2"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/status"
	"allium/resolver/trace"
)

// MaxProviders bounds the providers that one lookup collects and that an answer
// holds.
const MaxProviders = 32

// lookups asks the DHT for providers: one lookup per root at a time, whose result
// it remembers in the cache.
type lookups struct {
	cfg     *atomic.Pointer[Config]
	finder  Finder
	joining func() bool
	now     func() time.Time // dates records
	gate    *limits.Gate
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}] // of the finder; open: a lookup that failed is not tried again
	cache   *cache
	m       *metrics
	guard   func(func() error) error // Pool.Guard

	mu     sync.Mutex // lock: metadata
	active map[flight]*lookup
}

// flight names a lookup that others may join.
type flight struct {
	root  b3.Root
	fresh bool
}

func newLookups(
	live *atomic.Pointer[Config], d Deps, m *metrics, c *cache, guard func(func() error) error,
) *lookups {
	cfg := *live.Load()
	l := &lookups{
		cfg: live, finder: d.Finder, joining: d.Joining, now: d.Now, cache: c, m: m, guard: guard,
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
	ctx, cancel := context.WithTimeout(t.Context(tasks.Context()), l.cfg.Load().Deadline)
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
	ttl := l.cfg.Load().NegativeTTL
	remember := err == nil || deadline
	switch {
	case len(found) > 0:
		err, ttl, remember = nil, l.cfg.Load().PositiveTTL, true
	case deadline && status.Of(failure) == status.NoBootstrap:
		err, remember = failure, false
	case deadline:
		l.m.deadlineHits.Inc()
		err = status.Errorf(status.Timeout, "no provider found within %s", l.cfg.Load().Deadline)
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

// maxTries is the maximum number of times that one lookup asks the finder (SPEC §2).
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
