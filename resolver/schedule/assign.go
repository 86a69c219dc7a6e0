package schedule

import (
	"cmp"
	"math"
	"slices"

	"allium/protocols/b3"
)

// race asks for the proof of the size, and for the first groups with it, so that
// a small object takes one round trip. While there is no answer another provider
// is asked every 250 ms.
func (m *Machine) race(w *waiter) {
	if !m.allowed() {
		return
	}
	if len(m.requests) > 0 {
		if next := m.raced + unmeasured; next > m.now {
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
			m.wakeAt(p.rest)
		default:
			n := m.sizeFor(p)
			if p.partial {
				n = 0
			}
			m.ask(p, w.head(n))
			m.raced = m.now
			m.wake = m.now + unmeasured
			return
		}
	}
	m.find()
	if len(m.requests) == 0 && !resting && m.hopeless() {
		m.end(GiveUp)
	}
}

// assign gives work to the providers and finds out whom nobody can help.
func (m *Machine) assign() {
	for _, w := range m.waiters {
		w.bound(m.size)
	}
	m.dropUnwanted()
	for _, p := range m.fastestFirst() {
		for p.free(m.now) && p.doubted == 0 && m.give(p) {
		}
		if p.standing == good {
			m.wakeAt(p.rest)
		}
	}
	late := m.helpLate()
	for _, p := range m.providers {
		m.steal(p)
	}
	if m.wanting(late) {
		m.find()
	}
	closer, hopeless := m.failWaiters()
	switch {
	case closer:
		m.assign() // each time a provider lacks one run less, or one less is lost
		return
	case hopeless:
		m.end(GiveUp)
		return
	}
	if len(m.requests) == 0 {
		m.releaseIdle()
	}
	for _, r := range m.requests {
		if !r.twin {
			m.wakeAt(r.due())
		}
	}
	m.followReaders()
}

// releaseIdle gives the permit back while readers rest; a wait for it goes on.
func (m *Machine) releaseIdle() {
	if m.permitted {
		m.release()
	}
}

// dropUnwanted ends requests for groups that nobody wants any more.
func (m *Machine) dropUnwanted() {
	for _, r := range m.requests {
		if r.Next < r.hi && !slices.ContainsFunc(m.waiters, func(w *waiter) bool {
			return !w.failed && w.from() < r.hi && r.Next < w.hi
		}) {
			m.cancel(r, Unwanted)
		}
	}
}

// give finds one thing to do for p: a request that is late and that a reader
// waits for, else the run that is needed first. It reports whether there was one.
func (m *Machine) give(p *provider) bool {
	if p.inflight >= urgentRequests {
		return false
	}
	roomy := p.inflight == 0 || p.inflight < usualRequests && m.endsSoon(p)
	var best Run
	lead, n := int64(math.MaxInt64), m.sizeFor(p)
	for _, w := range m.waiters {
		if w.failed {
			continue
		}
		if r := m.awaited(w, p); r != nil && r.due() <= m.now && m.double(r, p) {
			return true
		}
		r, ok := m.next(w, p)
		if !ok {
			continue
		}
		ahead, most := int64(math.MaxInt64-1), min(n, w.atOnce())
		if w.Whole {
			most = min(n, m.share(p))
		} else {
			ahead = max(0, r.Lo-w.reader())
			if !roomy && ahead > 0 || w.tooShort(r, most) {
				continue
			}
		}
		if ahead < lead && (roomy || ahead == 0) {
			lead, best = ahead, Run{r.Lo, min(r.Hi, r.Lo+most)}
		}
	}
	if best.Lo == best.Hi || !m.allowed() {
		return false
	}
	m.ask(p, best)
	return true
}

// next is the first run that w wants, that is neither stored nor requested, and
// that p may have. A nil p means any provider.
func (m *Machine) next(w *waiter, p *provider) (Run, bool) {
	taken := m.takenFor(p)
	from, to := w.from(), w.limit()
	lo := m.firstMissing(from, to)
	w.low = max(w.low, lo)
	for lo < to {
		_, hi := m.stored.Missing(lo, min(to, lo+lookedAt))
		r := Run{lo, hi}.without(taken)
		if r.Lo < r.Hi {
			return r, true
		}
		lo = m.firstMissing(r.Lo, to)
	}
	return Run{}, false
}

// takenFor is what is requested or lacked by p, which may be nil, by its start.
func (m *Machine) takenFor(p *provider) []Run {
	var taken []Run
	for _, r := range m.requests {
		taken = append(taken, r.rest())
	}
	if p != nil {
		taken = append(taken, p.lacks...)
	}
	slices.SortFunc(taken, func(a, b Run) int { return cmp.Compare(a.Lo, b.Lo) })
	return taken
}

// sizeFor is how many groups p is asked for at once.
func (m *Machine) sizeFor(p *provider) int64 {
	rate := p.rate
	if rate == 0 {
		for _, r := range m.requests {
			if r.p == p {
				rate = max(rate, r.speed())
			}
		}
	}
	n := int64(firstRequest)
	if rate > 0 {
		n = int64(min(rate*requestTime.Seconds()/b3.GroupSize, maxRequest))
	}
	n = max(n, minRequest)
	if p.limit > 0 {
		n = min(n, p.limit)
	}
	return n
}

// share is p's part of what is left of the whole object and not asked for, so
// that all providers end at about the same time.
func (m *Machine) share(p *provider) int64 {
	left := (m.size - m.stored.Held() + b3.GroupSize - 1) / b3.GroupSize
	for _, r := range m.requests {
		left -= r.left()
	}
	return max(firstRequest, int64(math.Ceil(float64(left)*m.partOf(p))))
}

// endsSoon reports whether the one request to p ends so soon that the next has to
// go out now; if not, the driver says when it does.
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

// followReaders asks readers to say when they come to what nobody is asked for,
// or so near to the end of their window that more of it is worth a request.
func (m *Machine) followReaders() {
	for _, w := range m.waiters {
		if w.failed || w.Whole {
			continue
		}
		pos, limit := w.reader(), w.limit()
		r, ok := m.next(w, nil)
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

// wanting reports whether another provider would be of use.
func (m *Machine) wanting(late bool) bool {
	var left int64
	for _, w := range m.waiters {
		if w.failed {
			continue
		}
		if r, ok := m.next(w, nil); ok && !m.someoneHas(r.Lo, m.now) {
			return true
		}
		if w.low < w.hi {
			left += w.hi - w.from()
		}
	}
	left = min(left*b3.GroupSize, m.size-m.stored.Held())
	return m.free(m.now) < m.cfg.Providers && (left >= moreFrom || late)
}
