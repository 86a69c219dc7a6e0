package schedule

import (
	"slices"
	"time"

	"allium/protocols/status"
)

// Ended reports that a request has ended, canceled or not.
func (m *Machine) Ended(now time.Duration, id RequestID, res Result) Verdict {
	m.begin(now)
	i := slices.IndexFunc(m.requests, func(r *request) bool { return r.id == id })
	if i < 0 {
		return Verdict{}
	}
	r := m.requests[i]
	m.requests = slices.Delete(m.requests, i, i+1)
	p := r.p
	p.inflight--
	if r.Next < r.hi {
		m.freed++
	}
	if m.stored != nil {
		m.overtake()
	}
	var v Verdict
	progressed := res.Fresh+res.Extra > 0
	switch {
	case r.hedge && res.Fresh > 0:
		v.Hedge = HedgeWon
	case r.hedge && (res.Extra > 0 || r.canceled != NotCanceled):
		v.Hedge = HedgeLost
	case r.hedge:
		v.Hedge = HedgeFailed
	}
	if r.hedged {
		p.hedged--
	}
	if progressed {
		p.fails, p.missing, p.away = 0, 0, false
		m.searches, m.recalls = searches{}, 0
		if p.part != nil {
			p.part.still = 0
		}
	}
	switch {
	case res.Outcome == status.OK, m.ended:
	case r.canceled != NotCanceled && res.Outcome != status.Corrupt && (progressed || r.canceled != Late):
		// A canceled request is no fault of the provider, unless it sent a false group.
	default:
		v.Fault = true
		v.Retry = m.failed(r, res)
		if v.GaveUp = p.standing == lost || p.standing == slow; v.GaveUp {
			p.notBefore = m.now + m.cfg.Backoff(m.cfg.Tries)
		}
	}
	return v
}

// overtake cancels the hedged requests whose groups another provider has delivered.
func (m *Machine) overtake() {
	for _, r := range m.requests {
		why := Overtaken
		if m.silent(r) {
			why = Late
		}
		if r.shared && m.firstMissing(r.Next, r.hi) == r.hi {
			m.cancel(r, why)
		}
	}
}

// silent reports whether r has brought nothing for as long as a provider of unknown rate may take.
func (m *Machine) silent(r *request) bool { return r.First == 0 && m.now-r.asked >= m.cfg.HedgeAfter }

// failed records that a request delivered too little. It reports whether the
// provider is asked again after a pause.
func (m *Machine) failed(r *request, res Result) (retry bool) {
	p := r.p
	if p.standing != lost {
		p.away = false // Away says it again of this failure
	}
	switch {
	case res.Outcome == status.NotFound:
		m.runMissing(r)
		return false
	case res.Outcome == status.BreakerOpen && p.inflight > 0: // its other requests are the breaker's probes
		p.notBefore = m.now + m.cfg.Backoff(0)
		return false
	case res.Outcome == status.Corrupt, !res.Again && r.canceled != Late:
		p.become(lost)
		return false
	}
	p.fails++
	switch {
	case p.fails < m.cfg.Tries:
		p.notBefore = m.now + m.cfg.Backoff(p.fails-1)
		return true
	case r.canceled == Late:
		p.become(slow)
	default:
		p.become(lost)
	}
	return false
}

// runMissing records that a provider lacks the run of a request. If it may have
// others, it is asked which.
func (m *Machine) runMissing(r *request) {
	p := r.p
	p.missing++
	switch {
	case p.missing > maxMissing, m.stored != nil && m.groups() == 1:
		p.become(lost)
	case p.part == nil:
		p.become(unsure)
		m.question(p, m.waiters.window())
	case r.proof:
		p.noProof = true
	default:
		p.part.lacked(r.run)
	}
}
