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

// maxProviders bounds what one lookup collects: the k of the DHT.
const maxProviders = 20

// lookups finds providers: one lookup per root at a time, its result remembered
// for a while, also when there was none.
type lookups struct {
	cfg    Config
	finder Finder
	gate   *limits.Gate
	m      *metrics
	guard  func(func() error) error // Pool.Guard

	mu     sync.Mutex
	active map[b3.Root]*lookup
	cache  *simplelru.LRU[b3.Root, *lookup] // finished ones
}

// lookup is one search for providers of a root. Its users follow what it finds
// while it runs.
type lookup struct {
	root   b3.Root
	cancel context.CancelFunc
	users  int // guarded by lookups.mu; at zero the search is cancelled

	mu      sync.Mutex
	found   []record.Provider
	changed chan struct{} // closed and replaced when found or ended change
	ended   bool
	err     error     // why it ended, nil when it went through
	expires time.Time // when it is forgotten; set before ended
}

func newLookups(cfg Config, d Deps, m *metrics, guard func(func() error) error) *lookups {
	cache, err := simplelru.NewLRU[b3.Root, *lookup](cfg.CacheEntries, nil)
	if err != nil {
		panic(err) // only for a size below one, which Validate refuses
	}
	return &lookups{
		cfg: cfg, finder: d.Finder, m: m, guard: guard, cache: cache, active: map[b3.Root]*lookup{},
		gate: d.Limits.NewGate(limits.Spec{
			Name: "resolver.lookups", Path: "resolver → DHT lookups", Policy: "512 wait, the rest are refused with busy",
		}, cfg.Lookups, 512),
	}
}

// join returns the lookup of root: a remembered one unless fresh, the one in
// flight, or a new one that runs as one of tasks. The caller calls leave once.
func (l *lookups) join(tasks Tasks, root b3.Root, fresh bool) *lookup {
	s, ctx := l.enter(tasks, root, fresh)
	if ctx == nil {
		l.m.hits.Inc()
		return s
	}
	l.m.misses.Inc()
	if !tasks.Go(func() { l.run(ctx, s) }) {
		l.forget(s)
		s.end(ErrDraining)
	}
	return s
}

// enter counts a user in. ctx is nil unless the search is new and has to be run.
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

// leave ends a use. A search that nobody follows any more stops; what it found
// is remembered all the same.
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
	l.forget(s)
	// A failure that is not the network's answer is not remembered.
	if err == nil || deadline {
		l.remember(s)
	}
	s.end(err)
}

// forget takes s out of those in flight.
func (l *lookups) forget(s *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active[s.root] == s {
		delete(l.active, s.root)
	}
}

func (l *lookups) remember(s *lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache.Add(s.root, s)
}

// search drains the finder into s. An error beside providers found is of no
// interest.
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

// sweep forgets what has expired.
func (l *lookups) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, root := range l.cache.Keys() {
		if s, ok := l.cache.Peek(root); ok && !now.Before(s.expires) {
			l.cache.Remove(root)
		}
	}
}

// add appends a provider and returns how many there are.
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

// end says that no more will be found.
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

// at waits for the i-th provider. ok is false when the search ended before it
// found so many; err is then the search's, or ctx's.
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
