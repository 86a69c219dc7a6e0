package schedule

import (
	"slices"

	"allium/protocols/b3"
)

// awaited is the request that the reader w waits for, if p can double it.
func (m *Machine) awaited(w *waiter, p *provider) *request {
	if w.Whole {
		return nil
	}
	g := m.firstMissing(w.from(), w.limit())
	i := slices.IndexFunc(m.requests, func(r *request) bool {
		return r.Next <= g && g < r.hi && r.doublableBy(p)
	})
	if i < 0 {
		return nil
	}
	return m.requests[i]
}

// doublableBy reports whether p may be given what another provider is late with:
// a request is doubled once.
func (r *request) doublableBy(p *provider) bool {
	return r.p != p && !r.twin && r.canceled == NotCanceled && !p.lacking(r.rest())
}

// double gives p the next groups of r as well; the first to deliver wins. What of
// r is beyond those is free again. It does nothing when too much was asked for
// twice already.
func (m *Machine) double(r *request, p *provider) bool {
	received := max(0, m.stored.Held()-m.resumed)
	most := (doubledFree+received/doubledPart)/b3.GroupSize - m.doubled
	n := min(r.hi-r.Next, m.sizeFor(p), ReadAhead/4, most)
	if n <= 0 || !m.allowed() {
		return false
	}
	m.doubled += n
	r.twin, r.doubted = true, true
	r.p.doubted++
	if r.Next+n < r.hi {
		m.trim(r, r.Next+n)
	}
	h := m.ask(p, Run{r.Next, r.Next + n})
	h.hedge, h.twin = true, true
	return true
}

// helpLate doubles late requests with providers that have nothing else to do. It
// reports whether one was left without help.
func (m *Machine) helpLate() (left bool) {
	for _, r := range slices.Clone(m.requests) {
		if r.twin || r.canceled != NotCanceled || r.left() == 0 || r.due() > m.now {
			continue
		}
		if p := m.idleOther(r); p == nil || !m.double(r, p) {
			left = true
		}
	}
	return left
}

// idleOther returns a provider with nothing to do that can double r.
func (m *Machine) idleOther(r *request) *provider {
	for _, p := range m.fastestFirst() {
		if p.inflight == 0 && p.free(m.now) && r.doublableBy(p) {
			return p
		}
	}
	return nil
}

// steal gives p, when it has nothing to do, the end of the request that takes
// longest: as much as both should need the same time for.
func (m *Machine) steal(p *provider) {
	if p.inflight > 0 || !p.free(m.now) || p.doubted > 0 {
		return
	}
	var from *request
	longest := 2*p.rtt + worthStealing
	for _, r := range m.requests {
		if r.twin || r.canceled != NotCanceled || r.left() < 2*minRequest {
			continue
		}
		if d := r.ends(); d > longest {
			from, longest = r, d
		}
	}
	if from == nil {
		return
	}
	part := 0.5
	if theirs := from.speed(); p.rate > 0 && theirs > 0 {
		part = p.rate / (p.rate + theirs)
	}
	n := int64(float64(from.left()) * part)
	if p.limit > 0 {
		n = min(n, p.limit)
	}
	run := Run{from.hi - n, from.hi}
	if n < minRequest || p.lacking(run) || !m.allowed() {
		return
	}
	m.trim(from, run.Lo)
	m.ask(p, run)
}

// failWaiters fails the waiters that no provider can help, when there are no more
// providers. hopeless says that none is left, closer that providers with a part
// may be asked for single groups now, or slow ones again.
func (m *Machine) failWaiters() (closer, hopeless bool) {
	if !m.hopeless() {
		return false, false
	}
	failed := 0
	for _, w := range m.waiters {
		if !w.failed {
			if r, ok := m.next(w, nil); ok && !m.someoneHas(r.Lo, never) {
				if m.lookCloser(r.Lo) || m.askSlow() {
					closer = true
					continue
				}
				w.failed = true
				m.emit(Action{Kind: Fail, Waiter: w.id})
			}
		}
		if w.failed {
			failed++
		}
	}
	return closer, failed == len(m.waiters)
}
