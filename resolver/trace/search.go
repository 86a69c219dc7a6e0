package trace

import (
	"sync"
	"time"

	"allium/protocols/status"
)

// ActiveSearch records one search in the DHT. Any number of lookups may share it. Its methods are
// safe for concurrent use. A nil ActiveSearch records nothing.
type ActiveSearch struct {
	by status.LookupID

	mu     sync.Mutex // lock: leaf
	rec    Search     // Took is 0 until it has ended
	walked bool       // the DHT has said how it went
}

// NewSearch records a search in the DHT for key that begins now, for lookup l.
func NewSearch(key Key, l *Lookup) *ActiveSearch {
	key.Name = cut(key.Name, MaxName)
	return &ActiveSearch{by: l.ID(), rec: Search{Key: key, Start: time.Now(), Running: true}}
}

// By returns the lookup that began the search.
func (s *ActiveSearch) By() status.LookupID {
	if s == nil {
		return 0
	}
	return s.by
}

// Walked sets how the search went through the DHT, also after End: the DHT may take longer than the
// search does. The caller gives w away. Probes beyond 64 are cut and counted.
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
	s.rec.Walk, s.walked = w, true
}

// End says that the search has ended, with so many providers, or records of a name. err is the search's.
func (s *ActiveSearch) End(found int, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.Took, s.rec.Running = time.Since(s.rec.Start), false
	s.rec.Found, s.rec.Outcome, s.rec.Message = found, status.Of(err), textOf(err)
}

// snapshot returns the search as it was at the time now, as far as that is known: if it ended later,
// it runs. settled says that nothing will be added.
func (s *ActiveSearch) snapshot(now time.Time) (rec Search, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, settled = s.rec, s.walked && !s.rec.Running
	if at := now.Sub(rec.Start); rec.Running || rec.Took > at {
		rec.Running, rec.Took = true, max(0, at)
		rec.Outcome, rec.Message = status.OK, ""
	}
	return rec, settled
}

// attached is a search that a lookup uses.
type attached struct {
	*ActiveSearch
	joined bool
}

// mostOfSearch is the most bytes that a search takes in a record.
const mostOfSearch = searchSize + maxText + MaxName + maxProbes*probeSize

// Search adds a search in the DHT. joined says that another lookup began it.
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

// searched returns the searches as they were at the time now, and how many bytes of what was reserved
// for them they will not need.
func (d *draft) searched(now time.Time) (all []Search, spare int) {
	for _, a := range d.searches {
		s, settled := a.snapshot(now)
		s.Joined = a.joined
		all = append(all, s)
		if settled {
			spare += mostOfSearch - searchSize - len(s.Message) - len(s.Key.Name) - len(s.Walk.Probes)*probeSize
		}
	}
	return all, spare
}
