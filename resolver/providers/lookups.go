package providers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// maxProviders bounds the providers that one lookup collects: the k of the DHT.
const maxProviders = 20

// lookups runs one provider lookup per root at a time and caches the results,
// empty ones too.
type lookups struct {
	cfg    Config
	finder Finder
	gate   *limits.Gate
	m      *metrics
	guard  func(func() error) error // Pool.Guard

	mu     sync.Mutex
	active map[b3.Root]*lookup
	cache  *simplelru.LRU[b3.Root, *lookup] // finished lookups
}

// lookup is one search for providers of a root. Its users read what it finds
// while it runs.
type lookup struct {
	root   b3.Root
	cancel context.CancelFunc
	users  int // guarded by lookups.mu; at zero the search is canceled

	mu      sync.Mutex
	found   []record.Provider
	changed chan struct{} // closed and replaced when found or ended change
	ended   bool
	err     error     // nil when the search succeeded
	expires time.Time // when it leaves the cache; set before ended
}

func newLookups(cfg Config, d Deps, m *metrics, guard func(func() error) error) *lookups {
	cache, err := simplelru.NewLRU[b3.Root, *lookup](cfg.CacheEntries, nil)
	if err != nil {
		panic(err) // only for a size below one, which Validate refuses
	}
	return &lookups{
		cfg: cfg, finder: d.Finder, m: m, guard: guard, cache: cache, active: map[b3.Root]*lookup{},
		gate: d.Limits.NewGate(limits.Spec{
			Name:   "resolver.lookups",
			Path:   "resolver → DHT lookups",
			Policy: "512 wait, the rest are refused with busy",
		}, cfg.Lookups, 512),
	}
}

// join returns the lookup of root: the cached one unless fresh, the one in flight,
// or a new one that runs as one of tasks. The caller calls leave once.
func (l *lookups) join(tasks Tasks, root b3.Root, fresh bool) *lookup {
	s, ctx := l.enter(tasks, root, fresh)
	if ctx == nil {
		l.m.hits.Inc()
		return s
	}
	l.m.misses.Inc()
	if !tasks.Go(func() { l.run(ctx, s) }) {
		l.deactivate(s)
		s.end(ErrDraining)
	}
	return s
}

// enter adds a user to the lookup of root. ctx is nil unless the lookup is new and
// the caller must run it.
func (l *lookups) enter(tasks Tasks, root b3.Root, fresh bool) (s *lookup, ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.cache.Get(root); ok && !fresh && time.Now().Before(s.expires) {
		s.users++
		return s, nil
	}
	if s := l.active[root]; s != nil {
		s.users++
		return s, nil
	}
	ctx, cancel := context.WithTimeout(tasks.Context(), l.cfg.Deadline)
	s = &lookup{root: root, cancel: cancel, users: 1, changed: make(chan struct{})}
	l.active[root] = s
	return s, ctx
}

// leave removes a user. The search ends with its last user; what it found is
// cached all the same.
func (l *lookups) leave(s *lookup) {
	l.mu.Lock()
	s.users--
	last := s.users == 0
	if last && l.active[s.root] == s {
		delete(l.active, s.root)
	}
	l.mu.Unlock()
	if last {
		s.cancel()
	}
}

func (l *lookups) run(ctx context.Context, s *lookup) {
	defer s.cancel()
	start := time.Now()
	err := l.guard(func() error { return l.search(ctx, s) })
	l.m.lookedUp(start)

	found := s.count() > 0
	deadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	ttl := l.cfg.NegativeTTL
	switch {
	case found:
		err, ttl = nil, l.cfg.PositiveTTL
	case deadline:
		l.m.deadlineHits.Inc()
		err = status.Errorf(status.Timeout, "no provider found within %s", l.cfg.Deadline)
	}
	s.expires = time.Now().Add(ttl)
	l.deactivate(s)
	// A failure of this node says nothing of the network and is not cached.
	if err == nil || deadline {
		l.store(s)
	}
	s.end(err)
}

// deactivate removes s from the lookups in flight.
func (l *lookups) deactivate(s *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active[s.root] == s {
		delete(l.active, s.root)
	}
}

// store puts a finished lookup into the cache.
func (l *lookups) store(s *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache.Add(s.root, s)
}

// search adds what the finder yields to s. It returns the finder's last error,
// which run drops when s has providers.
func (l *lookups) search(ctx context.Context, s *lookup) error {
	release, err := l.gate.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	var last error
	for p, err := range l.finder.FindProviders(ctx, s.root, maxProviders) {
		if err != nil {
			last = err
			continue
		}
		if s.add(p) == maxProviders {
			return nil
		}
	}
	if last == nil {
		last = ctx.Err()
	}
	return last
}

// sweep removes expired lookups from the cache.
func (l *lookups) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, root := range l.cache.Keys() {
		if s, ok := l.cache.Peek(root); ok && !now.Before(s.expires) {
			l.cache.Remove(root)
		}
	}
}

// add appends a provider and returns how many s has.
func (s *lookup) add(p record.Provider) int {
	s.mu.Lock()
	s.found = append(s.found, p)
	n := len(s.found)
	wake := s.changed
	s.changed = make(chan struct{})
	s.mu.Unlock()
	close(wake)
	return n
}

// end marks the search as ended and wakes its users.
func (s *lookup) end(err error) {
	s.mu.Lock()
	s.ended, s.err = true, err
	wake := s.changed
	s.mu.Unlock()
	close(wake)
}

func (s *lookup) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.found)
}

// at waits for the i-th provider. ok is false when the search ended before it;
// err is then the search's or ctx's.
func (s *lookup) at(ctx context.Context, i int) (p record.Provider, ok bool, err error) {
	for {
		s.mu.Lock()
		changed, ended, serr := s.changed, s.ended, s.err
		if i < len(s.found) {
			p, ok = s.found[i], true
		}
		s.mu.Unlock()
		switch {
		case ok:
			return p, true, nil
		case ended:
			return record.Provider{}, false, serr
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return record.Provider{}, false, ctx.Err()
		}
	}
}
