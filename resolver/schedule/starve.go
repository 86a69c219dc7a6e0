package schedule

import (
	"slices"
	"time"
)

// Patience sets until when a waiter waits for providers to return, once all are lost and one of them may; 0: it
// fails at once.
func (m *Machine) Patience(id WaiterID, until time.Duration) {
	for _, w := range m.waiters {
		if w.id == id {
			w.until = until
		}
	}
}

// searches counts searches.
type searches struct {
	n    int
	at   time.Duration // when the next one is due; 0: not set
	open bool          // the latest was not answered yet

	recalls int // how often a provider was recalled
}

// failWaiters fails the waiters that no provider can serve, once no other provider
// can join. again reports that slow providers may now be asked again, or lost ones
// that may have returned. hopeless reports that every waiter has failed.
func (m *Machine) failWaiters() (again, hopeless bool) {
	if !m.hopeless() {
		return false, false
	}
	var starving []*waiter
	for _, w := range m.waiters {
		if w.failed {
			continue
		}
		if r, ok := m.next(w, nil, 1); ok && !m.someoneHas(r.Lo, never) {
			if m.retrySlow() {
				again = true
				continue
			}
			if m.growing() {
				continue
			}
			starving = append(starving, w)
		}
	}
	if len(starving) == 0 || again {
		return again, m.waiters.allFailed()
	}
	return m.starve(starving)
}

// Returned says that a provider that was away is connected again. It is asked at once.
func (m *Machine) Returned(now time.Duration, id ProviderID) {
	m.now = max(m.now, now)
	m.askAgain(m.providers[id])
}

// recall lets a provider that had all and may have returned be asked again after a pause, if nodes fetch from each
// other: what only such a provider has all of them need, and that all of them ask may be why it was silent. It does so
// Config.Tries times until a request delivers something.
func (m *Machine) recall(p *provider) {
	switch {
	case m.common.parts == 0 || p.part != nil || !p.mayReturn() || m.searches.recalls >= m.cfg.Tries:
	case m.now >= p.notBefore:
		m.searches.recalls++
		m.askAgain(p)
	default:
		m.wakeAt(p.notBefore)
	}
}

// askAgain lets p be asked once more if it may have returned.
func (m *Machine) askAgain(p *provider) {
	if p.mayReturn() {
		p.standing, p.away, p.fails, p.notBefore = good, false, m.cfg.Tries-1, m.now
	}
}

// mayReturn reports whether p is lost and may return.
func (p *provider) mayReturn() bool { return p.away && p.standing != good }

// waits reports whether w waits for lost providers to return.
func (m *Machine) waits(w *waiter) bool {
	return !w.failed && m.now < w.until && slices.ContainsFunc(m.providers, (*provider).mayReturn)
}

// starve fails those of the waiters, which no provider can serve, that do not wait. For the others it lets the lost
// providers be asked again, and further ones be looked for, after pauses. again reports that it has just done so.
func (m *Machine) starve(waiters []*waiter) (again, hopeless bool) {
	for _, w := range waiters {
		switch {
		case m.waits(w):
			m.wakeAt(w.until)
		case !w.failed:
			w.failed = true
			m.emit(Action{Kind: Fail, Waiter: w.id})
		}
	}
	if !slices.ContainsFunc(waiters, m.waits) {
		return false, m.waiters.allFailed()
	}
	if m.searches.at == 0 {
		m.searches.at = m.now + m.cfg.Pause(m.searches.n)
	}
	if m.now < m.searches.at {
		m.wakeAt(m.searches.at)
		return false, false
	}
	m.searches = searches{n: m.searches.n + 1, recalls: m.searches.recalls}
	m.emit(Action{Kind: Renew})
	for _, p := range m.providers {
		m.askAgain(p)
	}
	m.exhausted = false
	m.find()
	return true, false
}

// look asks the driver to look among connected peers, if it is time for that.
func (m *Machine) look() {
	l := &m.looks
	if m.cfg.Look == nil || l.open {
		return
	}
	if l.at == 0 {
		l.at = m.now + m.cfg.Look(0)
	}
	if m.now < l.at {
		m.wakeAt(l.at)
		return
	}
	l.open = true
	m.emit(Action{Kind: Look})
}

// Looked answers Look: the driver has added the candidates that it has found.
func (m *Machine) Looked(now time.Duration) {
	m.now = max(m.now, now)
	n := m.looks.n + 1
	m.looks = searches{n: n, at: m.now + m.cfg.Look(n)}
}
