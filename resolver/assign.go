package resolver

import (
	"cmp"
	"math"
	"slices"
	"time"

	"allium/protocols/b3"
)

// The size of a span, in groups: what a provider delivers in spanTime, within
// bounds.
const (
	spanTime  = 250 * time.Millisecond
	minSpan   = 4
	firstSpan = (1 << 20) / b3.GroupSize // of a peer whose pace is unknown
	maxSpan   = (64 << 20) / b3.GroupSize
)

// race asks for the proof of the size, and for the first groups with it, so that
// a small object takes one round trip. While there is no answer another provider
// is asked every 250 ms.
func (s *schedule) race(now time.Time, w *want) (wake time.Time, err error) {
	wake = now.Add(never)
	if !s.allowed() {
		return wake, nil
	}
	if len(s.spans) > 0 {
		if next := s.raced.Add(unmeasured); next.After(now) {
			return next, nil
		}
		if len(s.spans) >= s.r.cfg.ProvidersPerObject {
			return wake, nil
		}
	}
	resting := false
	for _, p := range s.providers {
		switch {
		case p.lost || p.inflight > 0 || p.noProof:
		case !p.free(now):
			resting = true
			wake = earlier(wake, p.rest, now)
		default:
			n := s.size(p)
			if p.partial {
				n = 0
			}
			s.start(p, w.head(n), now)
			s.raced = now
			return now.Add(unmeasured), nil
		}
	}
	s.more()
	if len(s.spans) == 0 && !resting && s.hopeless() {
		return wake, s.error()
	}
	return wake, nil
}

// earlier is the earlier of wake and at, if at is still to come.
func earlier(wake, at, now time.Time) time.Time {
	if at.After(now) && at.Before(wake) {
		return at
	}
	return wake
}

// assign gives work to the providers and finds out whom nobody can help.
func (s *schedule) assign(now time.Time, wants []*want) (wake time.Time, err error) {
	s.dropUnwanted(wants)
	wake = now.Add(never)
	for _, p := range s.byPace() {
		for p.free(now) && p.doubted == 0 && s.give(p, wants, now) {
		}
		if !p.lost {
			wake = earlier(wake, p.rest, now)
		}
	}
	late := s.helpLate(now)
	for _, p := range s.providers {
		s.steal(p, now)
	}
	if s.wanting(wants, late, now) {
		s.more()
	}
	if s.allFailed(wants, now) {
		return wake, s.error()
	}
	if len(s.spans) == 0 && s.permit != nil {
		s.unpermit()
	}
	for _, sp := range s.spans {
		if !sp.twin {
			wake = earlier(wake, sp.due(), now)
		}
	}
	if s.listen(wants) {
		wake = now
	}
	return wake, nil
}

// dropUnwanted ends requests for groups that nobody wants any more.
func (s *schedule) dropUnwanted(wants []*want) {
	for _, sp := range s.spans {
		next, hi := sp.next.Load(), sp.hi.Load()
		if next < hi && !slices.ContainsFunc(wants, func(w *want) bool {
			return !w.failed && w.from() < hi && next < w.hi
		}) {
			sp.giveUp(errUnwanted)
		}
	}
}

// byPace returns the providers, the fastest first.
func (s *schedule) byPace() []*provider {
	type paced struct {
		p    *provider
		rate float64
	}
	all := make([]paced, len(s.providers))
	for i, p := range s.providers {
		rate, _ := p.pace.measured()
		all[i] = paced{p, rate}
	}
	slices.SortStableFunc(all, func(a, b paced) int { return cmp.Compare(b.rate, a.rate) })
	sorted := make([]*provider, len(all))
	for i, a := range all {
		sorted[i] = a.p
	}
	return sorted
}

// give finds one thing to do for p: a span that is late and that a reader waits
// for, else the run that is needed first. It reports whether there was one.
func (s *schedule) give(p *provider, wants []*want, now time.Time) bool {
	if p.inflight >= urgentSpans {
		return false
	}
	roomy := p.inflight == 0 || p.inflight < usualSpans && s.endsSoon(p)
	var best run
	lead, n := int64(math.MaxInt64), s.size(p)
	for _, w := range wants {
		if w.failed {
			continue
		}
		if sp := s.awaited(w, p); sp != nil && !sp.due().After(now) && s.double(sp, p, now) {
			return true
		}
		r, ok := s.next(w, p)
		if !ok {
			continue
		}
		ahead, most := int64(math.MaxInt64-1), min(n, w.span())
		if w.whole {
			most = min(n, s.share(p))
		} else {
			ahead = max(0, r.lo-w.reader())
			if !roomy && ahead > 0 || w.short(r, most) {
				continue
			}
		}
		if ahead < lead && (roomy || ahead == 0) {
			lead, best = ahead, run{r.lo, min(r.hi, r.lo+most)}
		}
	}
	if best.lo == best.hi || !s.allowed() {
		return false
	}
	s.start(p, best, now)
	return true
}

// short reports whether r is cut by the reader's window to less than is worth a
// request, while the reader has something else to read.
func (w *want) short(r run, n int64) bool {
	limit := w.limit()
	return r.hi == limit && limit < w.hi && r.hi-r.lo < min(n, w.step()) && r.lo > w.reader()
}

// next is the first run that w wants, that is not here, not asked for, and that
// p may have; of nil anything.
func (s *schedule) next(w *want, p *provider) (run, bool) {
	taken := s.taken(p) // before looking at what is here: what arrives meanwhile was taken
	in, from, to := s.t.ingest, w.from(), w.limit()
	lo := firstMissing(in, from, to)
	w.low = max(w.low, lo)
	for lo < to {
		_, hi := in.Missing(lo, min(to, lo+lookedAt))
		r := run{lo, hi}.without(taken)
		if r.lo < r.hi {
			return r, true
		}
		lo = firstMissing(in, r.lo, to)
	}
	return run{}, false
}

// taken is what is asked for or lacked by p, which may be nil, by its start.
func (s *schedule) taken(p *provider) []run {
	var taken []run
	for _, sp := range s.spans {
		taken = append(taken, run{sp.next.Load(), sp.hi.Load()})
	}
	if p != nil {
		taken = append(taken, p.lacks...)
	}
	slices.SortFunc(taken, func(a, b run) int { return cmp.Compare(a.lo, b.lo) })
	return taken
}

// without cuts r to its first part that is not taken. It is empty when there is
// none, and starts where to look on.
func (r run) without(taken []run) run {
	for _, t := range taken {
		if t.lo <= r.lo && r.lo < t.hi {
			r.lo = t.hi
		}
	}
	for _, t := range taken {
		if r.lo < t.lo && t.lo < t.hi {
			r.hi = min(r.hi, t.lo)
		}
	}
	return r
}

// size is how many groups p is asked for at once.
func (s *schedule) size(p *provider) int64 {
	rate, _ := p.pace.measured()
	if rate == 0 {
		for _, sp := range s.spans {
			if sp.p == p {
				rate = max(rate, sp.speed())
			}
		}
	}
	n := int64(firstSpan)
	if rate > 0 {
		n = int64(min(rate*spanTime.Seconds()/b3.GroupSize, maxSpan))
	}
	n = max(n, minSpan)
	if p.limit > 0 {
		n = min(n, p.limit)
	}
	return n
}

// share is p's part of what is left of the whole object and not asked for, so
// that all providers end at about the same time.
func (s *schedule) share(p *provider) int64 {
	left := groupsOf(s.t.size - s.t.ingest.Held())
	for _, sp := range s.spans {
		left -= sp.left()
	}
	mine, _ := p.pace.measured()
	var all, known float64
	live := 0
	for _, o := range s.providers {
		if !o.lost {
			live++
			if rate, _ := o.pace.measured(); rate > 0 {
				all += rate
				known++
			}
		}
	}
	part := 1 / float64(max(live, 1))
	if mine > 0 {
		part = mine / (all + all/known*(float64(live)-known)) // the others are taken for average
	}
	return max(firstSpan, int64(math.Ceil(float64(left)*part)))
}

// groupsOf is how many groups n bytes are.
func groupsOf(n int64) int64 { return (n + b3.GroupSize - 1) / b3.GroupSize }

// endsSoon reports whether the one request to p ends so soon that the next has to
// go out now; if not, the request says when it does.
func (s *schedule) endsSoon(p *provider) bool {
	i := slices.IndexFunc(s.spans, func(sp *span) bool { return sp.p == p })
	sp := s.spans[i]
	hi := sp.hi.Load()
	at := sp.lo + (hi-sp.lo)/2
	if rate := sp.speed(); rate > 0 {
		at = hi - int64(rate*(sp.rtt()+lateAfter).Seconds()/b3.GroupSize)
	}
	sp.poke.Store(at)
	return sp.next.Load() >= at
}

// listen asks readers to say when they come to what nobody is asked for, or so
// near to the end of their window that more of it is worth a request. It reports
// whether one has.
func (s *schedule) listen(wants []*want) (there bool) {
	for _, w := range wants {
		if w.failed || w.whole {
			continue
		}
		pos, limit := w.reader(), w.limit()
		r, ok := s.next(w, nil)
		if !ok {
			r.lo = limit
		}
		at := w.hi
		if ok && r.lo > pos {
			at = r.lo
		}
		if near := r.lo + w.step() - w.ahead; limit < w.hi && near > pos {
			at = min(at, near)
		}
		if at < w.hi {
			there = w.wakeAt(at) || there
		}
	}
	return there
}
