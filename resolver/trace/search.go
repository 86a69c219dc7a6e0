package trace

import (
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// ActiveSearch records one search for providers while it runs. Any number of lookups may share it.
// Its methods are safe for concurrent use. A nil ActiveSearch records nothing.
type ActiveSearch struct {
	by status.LookupID

	mu  sync.Mutex
	rec Search // Took is 0 until it has ended
}

// NewSearch records a search for providers of root that begins now, for lookup l.
func NewSearch(root b3.Root, l *Lookup) *ActiveSearch {
	return &ActiveSearch{by: l.ID(), rec: Search{Root: root, Start: time.Now(), Running: true}}
}

// By returns the lookup that began the search.
func (s *ActiveSearch) By() status.LookupID {
	if s == nil {
		return 0
	}
	return s.by
}

// Walked sets how the search went through the DHT. The caller gives w away. Probes beyond 64 are cut
// and counted.
func (s *ActiveSearch) Walked(w Walk) {
	if s == nil {
		return
	}
	if extra := len(w.Probes) - maxProbes; extra > 0 {
		w.Omitted += extra
		w.Probes = append([]Probe(nil), w.Probes[:maxProbes]...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.Walk = w
}

// End says that the search has ended, with so many providers. err is the search's.
func (s *ActiveSearch) End(found int, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.Took, s.rec.Running = time.Since(s.rec.Start), false
	s.rec.Found, s.rec.Outcome, s.rec.Message = found, status.Of(err), textOf(err)
}

// snapshot returns the search as it is. Its probes never change.
func (s *ActiveSearch) snapshot() Search {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.rec
	if rec.Running {
		rec.Took = time.Since(rec.Start)
	}
	return rec
}

// attached is a search that a lookup uses.
type attached struct {
	*ActiveSearch
	joined bool
}

// mostOfSearch is the most bytes that a search takes in a record.
const mostOfSearch = searchSize + maxText + maxProbes*probeSize

// Search adds a search for providers. joined says that another lookup began it.
func (l *Lookup) Search(s *ActiveSearch, joined bool) {
	if s == nil {
		return
	}
	_, ok := l.enter()
	if !ok {
		return
	}
	defer l.mu.Unlock()
	d := &l.draft
	d.searches = keep(d, d.searches, attached{s, joined}, maxSearches, mostOfSearch, "", &d.rec.Omitted.Searches)
}

// searched returns the searches as they are, and how many bytes of what was reserved for them they
// do not take.
func (d *draft) searched() (all []Search, spare int) {
	for _, a := range d.searches {
		s := a.snapshot()
		s.Joined = a.joined
		all = append(all, s)
		spare += mostOfSearch - searchSize - len(s.Message) - len(s.Walk.Probes)*probeSize
	}
	return all, spare
}
