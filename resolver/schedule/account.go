package schedule

import (
	"slices"
	"time"

	"allium/protocols/status"
)

// Ended tells that a request came to its end, canceled or not.
func (m *Machine) Ended(now time.Duration, id RequestID, res Result) Verdict {
	m.begin()
	m.now = max(m.now, now)
	i := slices.IndexFunc(m.requests, func(r *request) bool { return r.id == id })
	if i < 0 {
		return Verdict{}
	}
	r := m.requests[i]
	m.requests = slices.Delete(m.requests, i, i+1)
	p := r.p
	p.inflight--
	if m.stored != nil {
		m.overtake()
	}
	var v Verdict
	moved := res.Fresh+res.Extra > 0
	switch {
	case r.hedge && res.Fresh > 0:
		v.Hedge = HedgeWon
	case r.hedge && (res.Extra > 0 || r.canceled != NotCanceled):
		v.Hedge = HedgeLost
	case r.hedge:
		v.Hedge = HedgeFailed
	case r.doubted:
		p.doubted--
	}
	if moved {
		p.fails, p.missing = 0, 0
		if p.limit > 0 {
			p.limit *= 2
		}
	}
	switch {
	case res.Outcome == status.OK, m.ended:
	case r.canceled != NotCanceled && res.Outcome != status.Corrupt && (moved || r.canceled != Late):
		// no fault of the provider; a false group is one, whoever was faster
	default:
		v.Fault = true
		v.Retry = m.failed(r, res)
	}
	return v
}

// overtake ends the requests whose groups came from elsewhere.
func (m *Machine) overtake() {
	for _, r := range m.requests {
		if !r.twin || r.canceled != NotCanceled || m.firstMissing(r.Next, r.hi) < r.hi {
			continue
		}
		if r.First == 0 && m.now-r.asked >= unmeasured {
			m.cancel(r, Late)
		} else {
			m.cancel(r, Overtaken)
		}
	}
}

// failed accounts for a request that brought less than it should, and reports
// whether its provider is asked again after a pause.
func (m *Machine) failed(r *request, res Result) (retry bool) {
	p := r.p
	switch {
	case res.Outcome == status.NotFound:
		m.runMissing(r)
		return false
	case res.Outcome == status.BreakerOpen && p.inflight > 0: // it is on probation, with as many requests as that allows
		p.rest = m.now + m.cfg.Backoff(0)
		return false
	case res.Outcome == status.Corrupt, !res.Again && r.canceled != Late:
		p.become(lost)
		return false
	}
	if p.fails++; p.fails >= m.cfg.Tries {
		if r.canceled == Late {
			p.become(slow)
		} else {
			p.become(lost)
		}
		return false
	}
	p.rest = m.now + m.cfg.Backoff(p.fails-1)
	return true
}

// runMissing accounts for a run that a provider does not have. When it may have
// another it is asked whether it has any.
func (m *Machine) runMissing(r *request) {
	p := r.p
	p.missing++
	n := r.last - r.lo
	switch {
	case p.missing > mostMissing, m.stored != nil && m.groups() == 1:
		p.become(lost)
	case !p.partial:
		p.become(unsure)
		m.questions++
		m.emit(Action{Kind: Question, Provider: p.id})
	case r.proof:
		p.noProof = true
	case n > minRequest:
		p.limit = max(n/4, minRequest)
	case n > 1 && p.fine:
		p.limit = 1
	default:
		p.lacks = append(p.lacks, Run{r.lo, r.last})
		if len(p.lacks) > mostMissing {
			p.become(lost)
		}
	}
}
