package resolver

import (
	"slices"
	"time"

	"allium/protocols/b3"
)

// What stealing is worth: a span that takes so much longer.
const worthStealing = 50 * time.Millisecond

// awaited is the request that the reader w waits for, if p can double it.
func (s *schedule) awaited(w *want, p *provider) *span {
	if w.whole {
		return nil
	}
	g := firstMissing(s.t.ingest, w.from(), w.limit())
	i := slices.IndexFunc(s.spans, func(sp *span) bool {
		return sp.next.Load() <= g && g < sp.hi.Load() && s.canDouble(sp, p)
	})
	if i < 0 {
		return nil
	}
	return s.spans[i]
}

// canDouble reports whether p may be given what another provider is late with: a
// request is doubled once.
func (s *schedule) canDouble(sp *span, p *provider) bool {
	return sp.p != p && !sp.twin && sp.gaveUp == nil && !p.lacking(run{sp.next.Load(), sp.hi.Load()})
}

// double gives p the next groups of sp as well; the first to deliver wins. What
// of sp is beyond those is free again. It does nothing when too much was asked
// for twice already.
func (s *schedule) double(sp *span, p *provider, now time.Time) bool {
	next, hi := sp.next.Load(), sp.hi.Load()
	most := (allDoubled+s.t.received.Load()/doubledPart)/b3.GroupSize - s.doubled
	n := min(hi-next, s.size(p), readAhead/4, most)
	if n <= 0 || !s.allowed() {
		return false
	}
	s.doubled += n
	sp.twin = true
	sp.hi.Store(next + n)
	sp.doubted = true
	sp.p.doubted++
	h := s.start(p, run{next, next + n}, now)
	h.hedge, h.twin = true, true
	return true
}

// lacking reports whether p did not have a part of r.
func (p *provider) lacking(r run) bool {
	return slices.ContainsFunc(p.lacks, func(l run) bool { return l.lo < r.hi && r.lo < l.hi })
}

// idleOther returns a provider with nothing to do that can double sp.
func (s *schedule) idleOther(sp *span, now time.Time) *provider {
	for _, p := range s.byPace() {
		if p.inflight == 0 && p.free(now) && s.canDouble(sp, p) {
			return p
		}
	}
	return nil
}

// helpLate doubles late requests with providers that have nothing else to do. It
// reports whether one was left without help.
func (s *schedule) helpLate(now time.Time) (left bool) {
	for _, sp := range slices.Clone(s.spans) {
		if sp.twin || sp.gaveUp != nil || sp.left() == 0 || sp.due().After(now) {
			continue
		}
		if p := s.idleOther(sp, now); p == nil || !s.double(sp, p, now) {
			left = true
		}
	}
	return left
}

// steal gives p, when it has nothing to do, the end of the request that takes
// longest: as much as both should need the same time for.
func (s *schedule) steal(p *provider, now time.Time) {
	if p.inflight > 0 || !p.free(now) || p.doubted > 0 {
		return
	}
	mine, rtt := p.pace.measured()
	var from *span
	var longest time.Duration
	for _, sp := range s.spans {
		if sp.twin || sp.gaveUp != nil || sp.left() < 2*minSpan {
			continue
		}
		if d := sp.ends(); d > longest && d > 2*rtt+worthStealing {
			from, longest = sp, d
		}
	}
	if from == nil {
		return
	}
	part := 0.5
	if theirs := from.speed(); mine > 0 && theirs > 0 {
		part = mine / (mine + theirs)
	}
	n := int64(float64(from.left()) * part)
	if p.limit > 0 {
		n = min(n, p.limit)
	}
	hi := from.hi.Load()
	r := run{hi - n, hi}
	if n < minSpan || p.lacking(r) || !s.allowed() {
		return
	}
	from.hi.Store(r.lo)
	s.start(p, r, now)
}

// wanting reports whether another provider would be of use.
func (s *schedule) wanting(wants []*want, late bool, now time.Time) bool {
	live := 0
	for _, p := range s.providers {
		if p.free(now) {
			live++
		}
	}
	var left int64
	for _, w := range wants {
		if w.failed {
			continue
		}
		if r, ok := s.next(w, nil); ok && !s.someoneHas(r.lo, now) {
			return true
		}
		if w.low < w.hi {
			left += w.hi - w.from()
		}
	}
	left = min(left*b3.GroupSize, s.t.size-s.t.ingest.Held())
	return live < s.r.cfg.ProvidersPerObject && (left >= moreFrom || late)
}

// someoneHas reports whether a provider that has rested by then may deliver group
// g.
func (s *schedule) someoneHas(g int64, then time.Time) bool {
	return slices.ContainsFunc(s.providers, func(p *provider) bool {
		return p.free(then) && !p.lacking(run{g, g + 1})
	})
}

// lookCloser lets the providers that have a part, but not the span around group
// g, be asked for single groups. It reports whether there is one.
func (s *schedule) lookCloser(g int64) (some bool) {
	for _, p := range s.providers {
		i := slices.IndexFunc(p.lacks, func(l run) bool { return l.lo <= g && g < l.hi && l.hi-l.lo > 1 })
		if p.lost || i < 0 {
			continue
		}
		p.lacks = slices.Delete(p.lacks, i, i+1)
		p.fine, p.limit, some = true, 1, true
	}
	if some {
		s.t.nudge()
	}
	return some
}

// allFailed fails the wants that no provider can help, when there are no more
// providers, and reports whether none is left.
func (s *schedule) allFailed(wants []*want, now time.Time) bool {
	if !s.hopeless() {
		return false
	}
	failed := 0
	for _, w := range wants {
		if !w.failed {
			if r, ok := s.next(w, nil); ok && !s.someoneHas(r.lo, now.Add(never)) && !s.lookCloser(r.lo) {
				w.fail(s.error())
			}
		}
		if w.failed {
			failed++
		}
	}
	return failed == len(wants)
}
