package schedule

import (
	"slices"

	"allium/protocols/b3"
)

// awaited returns the request that the reader w waits for, if p can hedge it.
func (m *Machine) awaited(w *waiter, p *provider) *request {
	if w.Whole {
		return nil
	}
	g := m.firstMissing(w.from(), w.limit())
	i := slices.IndexFunc(m.requests, func(r *request) bool {
		return r.Next <= g && g < r.hi && r.hedgeableBy(p)
	})
	if i < 0 {
		return nil
	}
	return m.requests[i]
}

// hedgeableBy reports whether p may hedge r. A request is hedged once.
func (r *request) hedgeableBy(p *provider) bool {
	return r.p != p && !r.shared && r.canceled == NotCanceled && p.has(r.rest())
}

// hedge requests the next groups of r from p as well; the first to deliver wins.
// r is trimmed to those groups, and the others can be requested anew. hedge does
// nothing when the transfer's bound on hedged bytes is reached.
func (m *Machine) hedge(r *request, p *provider) bool {
	received := max(0, m.stored.Held()-m.resumed)
	most := (hedgedFree+received/hedgedPart)/b3.GroupSize - m.hedgedGroups
	n := min(r.hi-r.Next, m.requests.sizeFor(p, m.common.parts > 0), ReadAhead/4, most)
	if n <= 0 || !m.allowed() {
		return false
	}
	m.hedgedGroups += n
	r.shared, r.hedged = true, true
	r.p.hedged++
	if r.Next+n < r.hi {
		m.trim(r, r.Next+n)
	}
	h := m.ask(p, Run{r.Next, r.Next + n})
	h.hedge, h.shared = true, true
	return true
}

// hedgeLate hedges late requests with providers that have no other work. It
// reports whether a late request could not be hedged.
func (m *Machine) hedgeLate() (left bool) {
	late := m.now - m.queued(m.waiters)
	for _, r := range slices.Clone(m.requests) {
		if r.shared || r.canceled != NotCanceled || r.left() == 0 || r.due(m.cfg.HedgeAfter) > late {
			continue
		}
		if p := m.idleOther(r); p == nil || !m.hedge(r, p) {
			left = true
		}
	}
	return left
}

// idleOther returns the fastest idle provider that can hedge r, or nil.
func (m *Machine) idleOther(r *request) *provider {
	for _, p := range m.fastestFirst() {
		if p.inflight == 0 && p.free(m.now) && r.hedgeableBy(p) && !m.spares(p) {
			return p
		}
	}
	return nil
}

// steal gives an idle p the end of the request that takes longest, split so that
// both requests should end at the same time.
func (m *Machine) steal(p *provider) {
	if p.inflight > 0 || !p.free(m.now) || p.hedged > 0 || m.spares(p) {
		return
	}
	var from *request
	longest := 2*p.rtt + minStealTime
	for _, r := range m.requests {
		if r.shared || r.canceled != NotCanceled || r.left() < 2*minRequest {
			continue
		}
		if d := r.ends(m.cfg.HedgeAfter); d > longest {
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
	run := Run{from.hi - n, from.hi}
	if n < minRequest || !p.has(run) || !m.allowed() {
		return
	}
	m.trim(from, run.Lo)
	m.ask(p, run)
}
