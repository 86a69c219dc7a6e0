package schedule

import "allium/protocols/b3"

// hedge requests the next groups of r from p as well; the first to deliver wins.
// r is trimmed to those groups, and the others can be requested anew. hedge does
// nothing when the transfer's bound on hedged bytes is reached.
func (a assigning) hedge(r *request, p *provider) bool {
	received := max(0, a.stored.Held()-a.resumed)
	most := (hedgedFree+received/hedgedPart)/b3.GroupSize - a.hedgedGroups
	n := min(r.left(), a.sizeFor(p), ReadAhead/4, most)
	if n <= 0 || !a.allowed() {
		return false
	}
	a.hedgedGroups += n
	r.shared, r.hedged = true, true
	r.p.hedged++
	if r.Next+n < r.hi {
		a.trim(r, r.Next+n)
	}
	h := a.ask(p, Run{r.Next, r.Next + n})
	h.hedge, h.shared = true, true
	return true
}

// hedgeLate hedges late requests with providers that have no other work. It
// reports whether a late request could not be hedged.
func (a assigning) hedgeLate() (left bool) {
	for _, r := range a.requests {
		if !r.alone() || r.left() == 0 || a.due(r) > a.now {
			continue
		}
		if p := a.idleOther(r); p == nil || !a.hedge(r, p) {
			left = true
		}
	}
	return left
}

// idle reports whether p has no work and may be given that of others.
func (a assigning) idle(p *provider) bool { return p.inflight == 0 && p.free(a.now) && !a.spares(p) }

// idleOther returns the fastest idle provider that can hedge r, or nil.
func (a assigning) idleOther(r *request) *provider {
	for _, p := range a.fastestFirst() {
		if a.idle(p) && r.hedgeableBy(p) {
			return p
		}
	}
	return nil
}

// steal gives p, if it is idle, the end of the request that takes longest, split so
// that both requests should end at the same time.
func (a assigning) steal(p *provider) {
	if p.hedged > 0 || !a.idle(p) {
		return
	}
	var from *request
	longest := 2*p.rtt + minStealTime
	for _, r := range a.requests {
		if !r.alone() || r.left() < 2*minRequest {
			continue
		}
		if d := r.ends(a.cfg.HedgeAfter); d > longest {
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
	if n < minRequest || !p.has(run) || !a.allowed() {
		return
	}
	a.trim(from, run.Lo)
	a.ask(p, run)
}
