package providers

import (
	"cmp"
	"context"
	"sync"

	"allium/protocols/dht/probes"
	"allium/protocols/record"
	"allium/resolver/trace"
)

// lookup is one search for providers of a root. Its users read what it finds
// while it runs.
type lookup struct {
	flight
	find     FindOptions
	search   *trace.ActiveSearch // its record
	cancel   context.CancelFunc  // nil: it had ended before it was asked for
	users    int                 // guarded by lookups.mu; at zero the search is canceled
	returned chan struct{}       // closed when the finder has returned, which may be long after ended

	mu      sync.Mutex    // lock: leaf
	result  searched      // found grows while the search runs; the rest is set at its end
	changed chan struct{} // closed and replaced when found or ended change
	ended   bool
	failure error // the last error of the finder, until the search ended
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
