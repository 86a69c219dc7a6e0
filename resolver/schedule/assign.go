package schedule

import (
	"math"
	"slices"
	"time"

	"allium/protocols/b3"
)

// askSize requests the proof of the size, with the first groups, so that a small
// object takes one round trip. Until an answer comes, another provider is asked
// every Config.HedgeAfter.
func (m *Machine) askSize() {
	i := slices.IndexFunc(m.waiters, func(w *waiter) bool { return !w.failed })
	if i < 0 || !m.allowed() {
		return
	}
	if len(m.requests) > 0 {
		if next := m.sizeAsked + m.cfg.HedgeAfter; next > m.now {
			m.wakeAt(next)
			return
		}
		if len(m.requests) >= m.cfg.Providers {
			return
		}
	}
	resting := false
	for _, p := range m.providers {
		switch {
		case p.standing != good || p.inflight > 0 || p.noProof:
		case !p.free(m.now):
			resting = true
			m.wakeAt(p.notBefore)
		default:
			n := m.sizeFor(p)
			if p.part != nil {
				n = 0
			}
			m.ask(p, m.waiters[i].head(n))
			m.sizeAsked = m.now
			m.wake = m.now + m.cfg.HedgeAfter
			return
		}
	}
	m.find()
	m.questionParts(m.waiters.window())
	switch {
	case len(m.requests) > 0 || resting || !m.hopeless() || m.growing():
	case !slices.ContainsFunc(m.waiters, m.waits):
		m.end(GiveUp)
	default:
		m.release()
		if m.starve(m.waiters) {
			m.askSize() // terminates: the next search is due later
		}
	}
}

// assigning is one decision which provider is asked for which groups. The size is known.
type assigning struct {
	*Machine
	// together says that all waiters fetch whole objects from nodes that fetch them too. There are as many requests
	// then, but one to each of more providers, so that load spreads.
	together bool
	// queued is added to the time at which a request is late: nodes that fetch from each other keep their links
	// full, and a request waits behind those of others.
	queued time.Duration
}

// assign gives work to the providers and fails the waiters that none can serve.
func (m *Machine) assign() {
	for _, w := range m.waiters {
		w.bound(m.size)
	}
	for _, r := range m.requests {
		if r.Next < r.hi && !m.wanted(r.rest()) {
			m.cancel(r, Unwanted)
		}
	}
	a := assigning{Machine: m, together: m.common.parts > 0 && m.waiters.whole()}
	most, sorted := m.cfg.Providers, m.fastestFirst()
	if a.together {
		a.queued = longRequest
		most *= usualRequests
		m.places.mix(sorted)
	}
	for _, p := range sorted {
		m.recall(p)
		for p.free(m.now) && p.hedged == 0 && (p.inflight > 0 || m.active() < most) && a.give(p) {
		}
		if p.standing == good {
			m.wakeAt(p.notBefore)
		}
	}
	late := a.hedgeLate()
	for _, p := range m.providers {
		a.steal(p)
	}
	if a.needsProvider(late) {
		m.find()
		m.look()
	}
	m.questionParts(m.waiters.window())
	if m.hopeless() {
		if a.failWaiters() {
			m.assign() // terminates: each time one provider less is slow, or the next search is due later
			return
		}
		if m.waiters.allFailed() {
			m.end(GiveUp)
			return
		}
	}
	if len(m.requests) == 0 && m.permitted { // readers have enough to read; a wait for the permit goes on
		m.release()
	}
	for _, r := range m.requests {
		if !r.shared {
			m.wakeAt(a.due(r))
		}
	}
	a.followReaders()
}

// due returns when r is late, unless another group arrives first.
func (a assigning) due(r *request) time.Duration { return r.due(a.cfg.HedgeAfter) + a.queued }

// give gives p one request: a hedge of a late request that a reader waits for, or
// else the run that is needed first. It reports whether there was one.
func (a assigning) give(p *provider) bool {
	if p.inflight >= urgentRequests {
		return false
	}
	hasCapacity := p.inflight == 0 || p.inflight < usualRequests && !a.together && a.endsSoon(p)
	var best Run
	lead, n := int64(math.MaxInt64), a.sizeFor(p)
	for _, w := range a.waiters {
		if w.failed {
			continue
		}
		in := a.needs(w)
		if r := a.requests.hedgeable(in.Lo, p); !w.Whole && r != nil && a.due(r) <= a.now && a.hedge(r, p) {
			return true
		}
		r := a.next(w, in, p, n)
		ahead, most := int64(math.MaxInt64-1), min(n, w.atOnce())
		if w.Whole {
			most = min(n, a.share(p))
		} else {
			ahead = max(0, r.Lo-w.reader())
		}
		if !r.empty() && ahead < lead && (hasCapacity || ahead == 0) && !w.tooShort(r, most) {
			lead, best = ahead, Run{r.Lo, min(r.Hi, r.Lo+most)}
		}
	}
	if best.empty() || !a.allowed() {
		return false
	}
	a.ask(p, best)
	return true
}

// next returns the first run that is neither stored nor requested and that p may have, in the groups that w needs. For
// a whole object, if there are providers with a part, it is a scattered one.
func (a assigning) next(w *waiter, in Run, p *provider, n int64) Run {
	if w.Whole && a.common.parts > 0 {
		return a.scattered(in, n, p)
	}
	return a.search(p.offers, in)
}

// scattered returns a run within in that is neither stored nor requested and that p may have. It begins at a place
// that chance draws, at a multiple of n groups: nodes that fetch from each other at the same time so have different
// groups to give. From a provider that has all groups it takes a run that no provider with a part has, if there is one.
// That is the run after the last such run, so each node fetches one stretch until it meets the stretch of another node.
// It is empty when there is none.
func (a assigning) scattered(in Run, n int64, p *provider) (r Run) {
	if p.part != nil && p.part.dry == a.freed {
		return Run{}
	}
	near := min(in.Hi, a.common.from+Window) // providers with a part can give what is in the window
	at := in.Lo + a.places.rng.Int64N(max(1, near-in.Lo))
	at = max(in.Lo, at-at%min(n, pieceGroups))
	if p.part == nil {
		next, rare := a.places.next, a.common.rare
		if r = a.search(rare, Run{max(in.Lo, next), min(near, next+1)}); r.empty() {
			r = a.search(rare, Run{at, near}, Run{in.Lo, at}, Run{near, in.Hi})
		} else {
			r = a.search(rare, Run{r.Lo, near})
		}
		if !r.empty() {
			a.places.next = r.Lo + n
		}
		if !r.empty() || a.spares(p) {
			return r
		}
	}
	if r = a.search(p.offers, Run{at, in.Hi}, Run{in.Lo, at}); r.empty() && p.part != nil {
		p.part.dry = a.freed
	}
	return r
}

// share returns p's share, in groups, of the object's bytes that are neither
// stored nor requested. With it all providers end at about the same time.
func (a assigning) share(p *provider) int64 {
	left := (a.size - a.stored.Held() + b3.GroupSize - 1) / b3.GroupSize
	for _, r := range a.requests {
		left -= r.left()
	}
	return max(firstRequest, int64(math.Ceil(float64(left)*a.partOf(p))))
}

// endsSoon reports whether the one request to p ends so soon that the next one
// must go out now. If not, the driver is asked to notify when it does.
func (a assigning) endsSoon(p *provider) bool {
	i := slices.IndexFunc(a.requests, func(r *request) bool { return r.p == p })
	r := a.requests[i]
	at := r.run.Lo + (r.hi-r.run.Lo)/2
	if rate := r.speed(); rate > 0 {
		at = r.hi - int64(rate*(p.rtt+lateAfter).Seconds()/b3.GroupSize)
	}
	if r.Next >= at {
		return true
	}
	if r.notify != at {
		r.notify = at
		a.emit(Action{Kind: Notify, Request: r.id, At: at})
	}
	return false
}

// followReaders asks the driver to call Advance when a reader reaches a group that
// is not requested, or when its window has moved far enough for another request.
func (a assigning) followReaders() {
	for _, w := range a.waiters {
		if w.failed || w.Whole {
			continue
		}
		pos, limit, at := w.reader(), w.limit(), w.hi
		r := a.search(nil, a.needs(w))
		switch {
		case r.empty():
			r.Lo = limit
		case r.Lo > pos:
			at = r.Lo
		}
		if near := r.Lo + w.step() - w.Ahead; limit < w.hi && near > pos {
			at = min(at, near)
		}
		if at < w.hi && at != w.follow {
			w.follow = at
			a.emit(Action{Kind: Follow, Waiter: w.id, At: at})
		}
	}
}

// stuck reports whether w needs groups that are neither stored nor requested, and no provider that may be asked at the
// time then may have the first of them.
func (a assigning) stuck(w *waiter, then time.Duration) bool {
	r := a.search(nil, a.needs(w))
	return !r.empty() && !a.someoneHas(r.Lo, then)
}

// needsProvider reports whether another provider would help. late says that a late
// request could not be hedged.
func (a assigning) needsProvider(late bool) bool {
	var left int64
	for _, w := range a.waiters {
		if w.failed {
			continue
		}
		if a.stuck(w, a.now) {
			return true
		}
		if w.low < w.hi {
			left += w.hi - w.from()
		}
	}
	left = min(left*b3.GroupSize, a.size-a.stored.Held())
	return a.available(a.now) < a.cfg.Providers && a.common.parts < maxParts && (left >= minShare || late)
}
