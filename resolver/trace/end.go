package trace

import (
	"cmp"
	"slices"
	"time"

	"allium/protocols/status"
)

// End closes the record. A nil err is success. A lookup that its callers gave up before
// it was slow is not kept.
func (l *Lookup) End(err error) { l.end(err, false) }

// Discard closes the record and drops it.
func (l *Lookup) Discard() { l.end(nil, true) }

func (l *Lookup) end(err error, drop bool) {
	if l == nil || l.draft.ring == nil {
		return
	}
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	rec := &l.draft.rec
	rec.Took, rec.Running = max(1, time.Since(rec.Start)), false
	if rec.Outcome == status.OK {
		rec.Outcome, rec.Message = status.Of(err), textOf(err)
	}
	_, spare := l.draft.searched(rec.Start.Add(rec.Took))
	rec.compact()
	reserved := l.draft.size
	size := (reserved - spare) * 5 / 4 // lists reserve memory for more entries, and the allocator rounds up
	l.mu.Unlock()
	l.mark.end()
	endSpan(l)

	r := l.draft.ring
	r.mu.Lock()
	delete(r.active, l.id)
	r.mu.Unlock()
	r.running.end(reserved)
	slow := rec.slow(l.byReader)
	if !drop && (rec.Outcome.Success() || failure(rec.Outcome)) {
		r.judge(l.id, rec.Kind, rec.Bytes, rec.waited(l.byReader))
	}
	switch {
	case drop, rec.Outcome == status.Canceled && !slow:
	case slow || failure(rec.Outcome):
		r.failed.add(l, size)
	default:
		r.ordinary.add(l, size)
	}
}

// waited returns how long the lookup kept its callers waiting: if a reader decides how fast it goes, until
// the first bytes.
func (r *Record) waited(byReader bool) time.Duration {
	if byReader {
		return cmp.Or(r.Ready, r.Took)
	}
	return r.Took
}

// slow reports whether the lookup counts as slow.
func (r *Record) slow(byReader bool) bool {
	ready := cmp.Or(r.Ready, r.Took)
	if ready > Slow || byReader {
		return ready > Slow
	}
	return r.Took > Slow+time.Duration(float64(r.Bytes)/(1<<20)*float64(SlowPerMiB))
}

// failure reports whether a lookup that ended so failed. A request that was refused before
// anything was asked is no failure: a node under load refuses many.
func failure(o status.Outcome) bool {
	switch o {
	case status.Canceled, status.Busy, status.RateLimit, status.Quota, status.Draining, status.NotReady,
		status.Denied, status.Forbidden, status.BadRequest, status.BadRange, status.BadAddress:
		return false
	}
	return !o.Success()
}

// record returns the lookup as it is. The lists of one that has ended are shared and never change.
func (l *Lookup) record() (rec Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec = l.draft.rec
	if l.ended {
		rec.Searches, _ = l.draft.searched(rec.Start.Add(rec.Took))
		return rec
	}
	rec.Took = max(1, time.Since(rec.Start))
	rec.Searches, _ = l.draft.searched(rec.Start.Add(rec.Took))
	rec.Steps = slices.Clone(rec.Steps)
	rec.Peers = slices.Clone(rec.Peers)
	for i := range rec.Peers {
		rec.Peers[i].Spans = slices.Clone(rec.Peers[i].Spans)
	}
	if rec.Tree != nil {
		tree := *rec.Tree
		tree.Failures = slices.Clone(tree.Failures)
		rec.Tree = &tree
	}
	return rec
}

// compact gives back the memory that lists have reserved for more entries.
func (r *Record) compact() {
	r.Steps = compacted(r.Steps)
	r.Peers = compacted(r.Peers)
	for i := range r.Peers {
		r.Peers[i].Spans = compacted(r.Peers[i].Spans)
	}
}

// compacted returns list, in memory that has space for at most three more entries.
func compacted[T any](list []T) []T {
	if cap(list) > len(list)+3 {
		return slices.Clone(list)
	}
	return list
}
