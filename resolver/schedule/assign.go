package schedule

import (
	"math"
	"slices"

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
			n := m.requests.sizeFor(p, m.common.parts > 0)
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
	m.questionParts()
	if len(m.requests) > 0 || resting || !m.hopeless() || m.growing() {
		return
	}
	if !slices.ContainsFunc(m.waiters, m.waits) {
		m.end(GiveUp)
		return
	}
	if m.permitted {
		m.release()
	}
	if again, _ := m.starve(m.waiters); again {
		m.askSize() // terminates: the next search is due later
	}
}

// assign gives work to the providers and fails the waiters that none can serve.
func (m *Machine) assign() {
	for _, w := range m.waiters {
		w.bound(m.size)
	}
	m.dropUnwanted()
	most, sorted := m.cfg.Providers, m.fastestFirst()
	if m.together(m.waiters) {
		most *= usualRequests
		m.places.mix(sorted)
	}
	for _, p := range sorted {
		m.recall(p)
		for p.free(m.now) && p.hedged == 0 && (p.inflight > 0 || m.active() < most) && m.give(p) {
		}
		if p.standing == good {
			m.wakeAt(p.notBefore)
		}
	}
	late := m.hedgeLate()
	for _, p := range m.providers {
		m.steal(p)
	}
	if m.needsProvider(late) {
		m.find()
		m.look()
	}
	m.questionParts()
	again, hopeless := m.failWaiters()
	switch {
	case again:
		m.assign() // terminates: each time one provider less is slow, or the next search is due later
		return
	case hopeless:
		m.end(GiveUp)
		return
	}
	if len(m.requests) == 0 && m.permitted { // readers have enough to read; a wait for the permit goes on
		m.release()
	}
	for _, r := range m.requests {
		if !r.shared {
			m.wakeAt(r.due(m.cfg.HedgeAfter) + m.queued(m.waiters))
		}
	}
	m.followReaders()
}

// dropUnwanted cancels requests for groups that no waiter needs any more.
func (m *Machine) dropUnwanted() {
	for _, r := range m.requests {
		if r.Next < r.hi && !slices.ContainsFunc(m.waiters, func(w *waiter) bool {
			return !w.failed && w.from() < r.hi && r.Next < w.hi
		}) {
			m.cancel(r, Unwanted)
		}
	}
}

// give gives p one request: a hedge of a late request that a reader waits for, or
// else the run that is needed first. It reports whether there was one.
func (m *Machine) give(p *provider) bool {
	if p.inflight >= urgentRequests {
		return false
	}
	hasCapacity := p.inflight == 0 || p.inflight < usualRequests && !m.together(m.waiters) && m.endsSoon(p)
	var best Run
	lead, n := int64(math.MaxInt64), m.requests.sizeFor(p, m.common.parts > 0)
	for _, w := range m.waiters {
		if w.failed {
			continue
		}
		if r := m.awaited(w, p); r != nil && r.due(m.cfg.HedgeAfter) <= m.now && m.hedge(r, p) {
			return true
		}
		r, ok := m.next(w, p, n)
		if !ok {
			continue
		}
		ahead, most := int64(math.MaxInt64-1), min(n, w.atOnce())
		if w.Whole {
			most = min(n, m.share(p))
		} else {
			ahead = max(0, r.Lo-w.reader())
			if !hasCapacity && ahead > 0 || w.tooShort(r, most) {
				continue
			}
		}
		if ahead < lead && (hasCapacity || ahead == 0) {
			lead, best = ahead, Run{r.Lo, min(r.Hi, r.Lo+most)}
		}
	}
	if best.Lo == best.Hi || !m.allowed() {
		return false
	}
	m.ask(p, best)
	return true
}

// next returns the first run that w needs, that is neither stored nor requested,
// and that p may have. A nil p means any provider.
func (m *Machine) next(w *waiter, p *provider, n int64) (Run, bool) {
	lo, to := m.firstMissing(w.from(), w.limit()), w.limit()
	w.low = max(w.low, lo)
	var r Run
	if w.Whole && p != nil && m.common.parts > 0 {
		r = m.scattered(lo, to, n, p)
	} else {
		r = m.search(Run{lo, to}, p, false)
	}
	return r, !r.empty()
}

// search returns the first run within r that is neither stored nor requested and that p may have; a nil p means any
// provider. If rare, no provider with a part has it. It is empty when there is none.
func (m *Machine) search(in Run, p *provider, rare bool) Run {
	taken := m.requests.runs()
	for lo := in.Lo; lo < in.Hi; {
		var r Run
		r.Lo, r.Hi = m.stored.Missing(lo, min(in.Hi, lo+groupsAtOnce))
		if r.Lo == r.Hi {
			lo += groupsAtOnce
			continue
		}
		free := r.without(taken)
		lo = max(free.Lo, free.Hi)
		switch {
		case free.empty():
		case rare:
			free = m.common.rare(free)
		case p != nil && p.part != nil:
			free = p.part.within(free)
		}
		if !free.empty() {
			return free
		}
	}
	return Run{}
}

// share returns p's share, in groups, of the object's bytes that are neither
// stored nor requested. With it all providers end at about the same time.
func (m *Machine) share(p *provider) int64 {
	left := (m.size - m.stored.Held() + b3.GroupSize - 1) / b3.GroupSize
	for _, r := range m.requests {
		left -= r.left()
	}
	return max(firstRequest, int64(math.Ceil(float64(left)*m.partOf(p))))
}

// endsSoon reports whether the one request to p ends so soon that the next one
// must go out now. If not, the driver is asked to notify when it does.
func (m *Machine) endsSoon(p *provider) bool {
	i := slices.IndexFunc(m.requests, func(r *request) bool { return r.p == p })
	r := m.requests[i]
	at := r.lo + (r.hi-r.lo)/2
	if rate := r.speed(); rate > 0 {
		at = r.hi - int64(rate*(p.rtt+lateAfter).Seconds()/b3.GroupSize)
	}
	if r.Next >= at {
		return true
	}
	if r.notify != at {
		r.notify = at
		m.emit(Action{Kind: Notify, Request: r.id, At: at})
	}
	return false
}

// followReaders asks the driver to call Advance when a reader reaches a group that
// is not requested, or when its window has moved far enough for another request.
func (m *Machine) followReaders() {
	for _, w := range m.waiters {
		if w.failed || w.Whole {
			continue
		}
		pos, limit := w.reader(), w.limit()
		r, ok := m.next(w, nil, 1)
		if !ok {
			r.Lo = limit
		}
		at := w.hi
		if ok && r.Lo > pos {
			at = r.Lo
		}
		if near := r.Lo + w.step() - w.Ahead; limit < w.hi && near > pos {
			at = min(at, near)
		}
		if at < w.hi && at != w.follow {
			w.follow = at
			m.emit(Action{Kind: Follow, Waiter: w.id, At: at})
		}
	}
}

// needsProvider reports whether another provider would help. late says that a late
// request could not be hedged.
func (m *Machine) needsProvider(late bool) bool {
	var left int64
	for _, w := range m.waiters {
		if w.failed {
			continue
		}
		if r, ok := m.next(w, nil, 1); ok && !m.someoneHas(r.Lo, m.now) {
			return true
		}
		if w.low < w.hi {
			left += w.hi - w.from()
		}
	}
	left = min(left*b3.GroupSize, m.size-m.stored.Held())
	return m.free(m.now) < m.cfg.Providers && m.common.parts < maxParts && (left >= minShare || late)
}
