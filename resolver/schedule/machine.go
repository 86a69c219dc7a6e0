package schedule

import (
	"slices"
	"time"

	"allium/protocols/status"
)

// Config bounds a transfer.
type Config struct {
	Providers int // asked at the same time
	Tries     int // requests in a row that may bring nothing before a provider is not asked again

	// Backoff is the pause before try n+2 of a provider, from n = 0.
	Backoff func(n int) time.Duration
}

// Machine schedules one transfer. Times are durations since an instant of the
// driver's choice; a time before the last one counts as the last one. Advance
// follows every event at once: what an event leads to waits for it. It is for one
// goroutine.
//
// Invariant: requests holds the requests that have not Ended, in the order of
// their Ask; inflight of a provider counts its own.
type Machine struct {
	actions
	object
	supply

	cfg   Config
	now   time.Duration
	wake  time.Duration
	ended bool

	waiters  []*waiter
	requests []*request
	last     RequestID

	permitted, acquiring bool

	raced   time.Duration // when a provider was asked for the size last
	doubled int64         // groups that were asked for twice
	whole   time.Duration // when the object was found to be whole; never: it was not
}

// New prepares a transfer.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, whole: never, wake: never} }

// Join adds a waiter under a number that is not in use.
func (m *Machine) Join(id WaiterID, w Want) {
	m.waiters = append(m.waiters, &waiter{Want: w, id: id})
}

// Leave removes a waiter.
func (m *Machine) Leave(id WaiterID) {
	m.waiters = slices.DeleteFunc(m.waiters, func(w *waiter) bool { return w.id == id })
}

// Read tells which group a reader reads next.
func (m *Machine) Read(id WaiterID, group int64) {
	for _, w := range m.waiters {
		if w.id == id {
			w.pos = group
		}
	}
}

// Known tells how many candidates there are until now, those found included.
func (m *Machine) Known(n int) { m.known = n }

// Found answers Find with a provider.
func (m *Machine) Found() ProviderID {
	m.finding = false
	m.providers = append(m.providers, &provider{id: ProviderID(len(m.providers))})
	return ProviderID(len(m.providers) - 1)
}

// NoneFound answers Find: there is no other candidate.
func (m *Machine) NoneFound() { m.finding, m.exhausted = false, true }

// Heard answers Question: whether the provider has a part of the object.
func (m *Machine) Heard(id ProviderID, partial bool) {
	m.questions--
	p := m.providers[id]
	switch {
	case p.standing != unsure: // it lied meanwhile, or failed too often
	case partial:
		p.standing, p.partial, p.limit = good, true, minRequest
	default:
		p.become(lost)
	}
}

// Granted answers Acquire.
func (m *Machine) Granted() { m.permitted, m.acquiring = true, false }

// Pace tells how fast a provider is: bytes per second, 0 when unknown, and the
// time to the first byte of an answer.
func (m *Machine) Pace(id ProviderID, rate float64, rtt time.Duration) {
	p := m.providers[id]
	p.rate, p.rtt = rate, rtt
}

// Progress is what came of a request until now. The times count from Ask; 0: it
// has not happened.
type Progress struct {
	Next  int64         // the group that comes next
	Sent  time.Duration // when the request went out
	First time.Duration // when the first item came
	Alive time.Duration // when the latest group came
}

// Progress tells what came of a request until now.
func (m *Machine) Progress(id RequestID, p Progress) {
	for _, r := range m.requests {
		if r.id == id {
			r.Progress = p
		}
	}
}

// Sized tells the proved size, and where to see what is here.
func (m *Machine) Sized(size int64, stored Stored) {
	m.begin()
	m.size, m.stored, m.resumed = size, stored, stored.Held()
	for i, r := range m.requests {
		if groups := m.groups(); r.hi > groups {
			m.trim(r, groups)
		}
		r.hedge, r.twin = i > 0, len(m.requests) > 1
	}
	for _, w := range m.waiters {
		w.bound(size)
	}
}

// Lost tells that a group that was here is gone.
func (m *Machine) Lost() {
	m.low = 0
	for _, w := range m.waiters {
		w.low = 0
	}
}

// Complete reports whether all groups are here.
func (m *Machine) Complete() bool { return m.complete() }

// InFlight is how many requests are.
func (m *Machine) InFlight() int { return len(m.requests) }

// Wake is when Advance is due, if no event comes before; ok is false when it is
// not.
func (m *Machine) Wake() (at time.Duration, ok bool) { return m.wake, m.wake != never }

// Advance does what there is to do at now. The actions are in order, and valid
// until the next call.
func (m *Machine) Advance(now time.Duration) []Action {
	m.begin()
	m.taken = true
	m.now = max(m.now, now)
	m.wake = never
	switch {
	case m.ended:
	case m.Complete():
		m.settle()
	case len(m.waiters) == 0:
		m.idle()
	case m.stored == nil:
		m.race(m.waiters[0])
	default:
		m.assign()
	}
	return m.out
}

func (m *Machine) end(k Kind) {
	m.ended = true
	m.emit(Action{Kind: k})
}

// wakeAt makes Advance due at a time that is still to come.
func (m *Machine) wakeAt(at time.Duration) {
	if at > m.now {
		m.wake = min(m.wake, at)
	}
}

// settle ends the transfer. Answers that are at their end are given time to come
// to it, so that their streams are good for the next request.
func (m *Machine) settle() {
	if m.whole == never {
		m.whole = m.now
	}
	m.overtake()
	if len(m.requests) == 0 || m.now >= m.whole+unmeasured {
		m.end(Done)
		return
	}
	m.wakeAt(m.whole + unmeasured)
}

// idle ends what is in flight: nobody waits.
func (m *Machine) idle() {
	for _, r := range m.requests {
		m.cancel(r, Unwanted)
	}
	if len(m.requests) == 0 {
		m.release()
	}
}

// allowed reports whether requests may go out; if not, the permit is asked for.
func (m *Machine) allowed() bool {
	if !m.permitted && !m.acquiring {
		m.acquiring = true
		m.emit(Action{Kind: Acquire})
	}
	return m.permitted
}

func (m *Machine) release() {
	if m.permitted || m.acquiring {
		m.permitted, m.acquiring = false, false
		m.emit(Action{Kind: Release})
	}
}

// find asks for another provider, unless there is none.
func (m *Machine) find() {
	if m.finding || m.exhausted && m.known <= len(m.providers) {
		return
	}
	m.finding, m.exhausted = true, false
	m.emit(Action{Kind: Find})
}

// Result is what a request came to.
type Result struct {
	Fresh   int64          // groups that were not here
	Extra   int64          // groups that were
	Outcome status.Outcome // of the request
	Again   bool           // a provider that ended so may do better soon
}

// Verdict is what an ended request means.
type Verdict struct {
	Fault bool  // it brought less than it should, by no decision of the machine's
	Retry bool  // the provider is asked again after a pause
	Hedge Hedge // what became of it as a double
}

// Hedge is what became of a request that doubled another.
type Hedge uint8

// The ends of a hedge.
const (
	NoHedge     Hedge = iota // the request doubled none
	HedgeWon                 // something came first from it
	HedgeLost                // nothing did
	HedgeFailed              // it ended by itself, with nothing
)
