package trace

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/env"
	"allium/internal/tracing"
	"allium/protocols/status"
)

// Ring holds the records of the latest lookups. Its methods are safe for concurrent use. A nil Ring
// gives lookups their IDs and records nothing.
type Ring struct {
	failed   *part // failed and slow lookups
	ordinary *part
	hits     *hits
	running  *budget
	omitted  atomic.Int64 // details that lookups left out
	films    Films        // nil: no films are made
	marks    context.Context
	tracer   *tracing.Tracer
	outliers outliers

	mu     sync.Mutex // guards active; lock: leaf
	active map[status.LookupID]*Lookup
}

// Deps holds the dependencies of a [Ring]. Each may be nil.
type Deps struct {
	env.Env
	Films Films // of lookups that take far longer than others of their class; nil: none
	// Marks is the context in which Go's tracer is told of lookups; nil: it is not. Its end means nothing.
	Marks context.Context
}

// New returns an empty ring.
func New(d Deps) *Ring {
	r := &Ring{active: map[status.LookupID]*Lookup{}, films: d.Films, marks: d.Marks, tracer: d.Tracer}
	r.failed = newPart(d.Limits, "failed", "failed and slow lookups → why", failedEntries, failedBytes)
	r.ordinary = newPart(d.Limits, "ordinary", "other lookups → why", ordinaryEntries, ordinaryBytes)
	r.hits = newHits(d.Limits)
	r.running = newBudget(d.Limits)
	if d.Metrics != nil {
		r.register(d.Metrics)
	}
	return r
}

// Begin starts the record of a lookup of key. The caller calls End once. budget is its deadline, 0
// for none. A name beyond MaxName bytes is cut.
func (r *Ring) Begin(kind Kind, key Key, budget time.Duration) *Lookup {
	return r.begin(kind, key, budget, Parent{})
}

// Parent names the lookup and the request that led to a lookup. Its fields may be zero.
type Parent struct {
	ID   status.LookupID // of another lookup: the fetch of a directory, or the lookup of a name
	Span *tracing.Span   // of a request, such as one of a peer; that of the other lookup goes before
}

// ParentOf returns what led to the lookups of ctx.
func ParentOf(ctx context.Context) Parent { return Parent{status.ParentOf(ctx), tracing.Of(ctx)} }

// BeginUnder is Begin for a lookup that something else led to.
func (r *Ring) BeginUnder(parent Parent, kind Kind, key Key, budget time.Duration) *Lookup {
	return r.begin(kind, key, budget, parent)
}

func (r *Ring) begin(kind Kind, key Key, budget time.Duration, parent Parent) *Lookup {
	l := &Lookup{id: status.NewLookupID(), byReader: kind == Open}
	if r == nil {
		return l
	}
	if r.films != nil {
		r.films.Arm()
	}
	key.Name = cut(key.Name, MaxName)
	l.draft.rec.Head = Head{
		ID: l.id, Parent: parent.ID, Kind: kind, Key: key, Start: time.Now(), Budget: budget, Running: true,
	}
	l.draft.rec.Steps = l.draft.steps[:0]
	l.draft.size = recordSize + 2*len(key.Name) + maxText
	if !r.running.reserve(l.draft.size) {
		r.omitted.Add(1)
		return l
	}
	r.mu.Lock()
	full := len(r.active) >= runningEntries
	above := r.active[parent.ID]
	if !full {
		r.active[l.id] = l
	}
	r.mu.Unlock()
	if full {
		r.running.release(l.draft.size)
		r.omitted.Add(1)
		return l
	}
	l.draft.ring, l.mark, l.span = r, markOf(r.marks, kind, l.id), r.spanOf(kind, above, parent.Span)
	return l
}

// Fail records a lookup that began at begun and failed before any peer was asked, and returns err
// with its ID. from is what failed, or empty.
func (r *Ring) Fail(kind Kind, key Key, begun time.Time, from Source, err error) error {
	l := r.Begin(kind, key, 0)
	l.mu.Lock()
	l.draft.rec.Start = begun
	l.mu.Unlock()
	l.Call()
	if from != "" {
		l.Failed(from, time.Since(begun), err)
	}
	l.End(err)
	return l.Mark(err)
}

// Get returns the lookup with that ID. ok is false when it was never recorded, or has left the ring.
func (r *Ring) Get(id status.LookupID) (rec Record, ok bool) {
	if r == nil || id == 0 {
		return Record{}, false
	}
	found := r.find(1, func(h *Head) bool { return h.ID == id })
	if len(found) == 0 {
		return Record{}, false
	}
	return found[0], true
}

// Latest returns at most limit lookups of key, the latest first.
func (r *Ring) Latest(key Key, limit int) []Record {
	if r == nil {
		return nil
	}
	return r.find(limit, func(h *Head) bool { return h.Key == key })
}

// Parts returns at most limit lookups that the lookup id led to, the latest first.
func (r *Ring) Parts(id status.LookupID, limit int) []Record {
	if r == nil || id == 0 {
		return nil
	}
	return r.find(limit, func(h *Head) bool { return h.Parent == id })
}

// find returns at most limit lookups for which match is true, the latest first. match must be quick
// and must not call the ring.
func (r *Ring) find(limit int, match func(*Head) bool) []Record {
	active := r.unended()
	found := r.hits.find(match)
	seen := map[status.LookupID]bool{} // one may end while this looks for it
	for _, l := range slices.Concat(active, r.failed.all(), r.ordinary.all()) {
		if match(&l.draft.rec.Head) && !seen[l.id] {
			seen[l.id] = true
			found = append(found, l.record())
		}
	}
	slices.SortStableFunc(found, func(a, b Record) int { return b.Start.Compare(a.Start) })
	return found[:min(limit, len(found))]
}

// Recent returns at most limit lookups that asked somebody, the latest first, and how many of them it left out.
func (r *Ring) Recent(limit int) (latest []Record, left int) {
	if r == nil {
		return nil, 0
	}
	return newest(slices.Concat(r.unended(), r.failed.all(), r.ordinary.all()), limit)
}

// Running returns at most limit lookups that have not ended, the latest first, and how many it left out.
func (r *Ring) Running(limit int) (latest []Record, left int) {
	if r == nil {
		return nil, 0
	}
	return newest(r.unended(), limit)
}

// unended returns the lookups that run.
func (r *Ring) unended() []*Lookup {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.active))
}

// newest returns the records of the latest lookups, at most limit, and how many it left out. It copies no others.
func newest(all []*Lookup, limit int) (latest []Record, left int) {
	began := map[status.LookupID]time.Time{} // one may end between two lists
	all = slices.DeleteFunc(all, func(l *Lookup) bool {
		_, known := began[l.id]
		began[l.id] = startOf(l)
		return known
	})
	slices.SortFunc(all, func(a, b *Lookup) int { return began[b.id].Compare(began[a.id]) })
	latest = make([]Record, min(limit, len(all)))
	for i := range latest {
		latest[i] = all[i].record()
	}
	return latest, len(all) - len(latest)
}
