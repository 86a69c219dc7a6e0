package schedule

import (
	"slices"
	"time"

	"allium/protocols/status"
)

// Config bounds a transfer.
type Config struct {
	Providers int // most providers that are asked at the same time
	Tries     int // a provider is lost after so many requests in a row that delivered nothing

	// HedgeAfter is the longest time in which a provider of unknown rate may send no group before
	// another one is asked for the same groups; 0 means DefaultHedgeAfter.
	HedgeAfter time.Duration

	// Look is the pause before look n, from 0, among connected peers, which may have begun to fetch the object
	// too; nil: there is none.
	Look func(n int) time.Duration
	// Seed begins the row of chance places at which nodes that fetch from each other ask for groups.
	Seed uint64

	// Backoff is the pause before try n+2 of a provider, from n = 0.
	Backoff func(n int) time.Duration
	// Pause is the pause before search n, from 0, for providers in place of those that are lost; see
	// [Machine.Patience].
	Pause func(n int) time.Duration
}

// Machine schedules one transfer. Times are durations since an instant that the
// driver chooses. A time before the latest one counts as the latest one. The driver
// calls Advance after every event, because events only record what happened. A
// Machine is not safe for concurrent use.
//
// Invariant: requests contains the requests that have not ended, in the order of
// their Ask. inflight of a provider counts its own.
type Machine struct {
	actions
	object
	supply

	cfg   Config
	now   time.Duration
	wake  time.Duration
	ended bool

	waiters  waiters
	requests requests
	last     RequestID

	permitted, acquiring bool

	searches searches // for providers in place of lost ones, since a request delivered something
	places   places

	sizeAsked    time.Duration // when a provider was asked for the size last
	hedgedGroups int64         // groups that were asked for twice
	whole        time.Duration // when the object was found to be whole, or never
}

// New prepares a transfer.
func New(cfg Config) *Machine {
	if cfg.HedgeAfter == 0 {
		cfg.HedgeAfter = DefaultHedgeAfter
	}
	return &Machine{cfg: cfg, whole: never, wake: never, places: newPlaces(cfg.Seed)}
}

// Join adds a waiter. Its number must not be in use.
func (m *Machine) Join(id WaiterID, w Demand) {
	m.waiters = append(m.waiters, &waiter{Demand: w, id: id})
	m.places.freed++
}

// Leave removes a waiter.
func (m *Machine) Leave(id WaiterID) {
	m.waiters = slices.DeleteFunc(m.waiters, func(w *waiter) bool { return w.id == id })
}

// Read sets the group that a reader reads next.
func (m *Machine) Read(id WaiterID, group int64) {
	for _, w := range m.waiters {
		if w.id == id {
			w.pos = group
		}
	}
}

// Granted answers Acquire: the driver has the permit.
func (m *Machine) Granted() { m.permitted, m.acquiring = true, false }

// Progress is the state of a running request. Its times count from Ask; 0 means that
// it has not happened.
type Progress struct {
	Next  int64         // the group that arrives next
	Sent  time.Duration // when the request went out
	First time.Duration // when the first item arrived
	Alive time.Duration // when the latest group arrived
}

// Progress sets how far a request has come.
func (m *Machine) Progress(id RequestID, p Progress) {
	for _, r := range m.requests {
		if r.id == id {
			r.Progress = p
		}
	}
}

// Sized sets the proved size and where to see which groups are stored. A request that has brought nothing is trimmed
// to what one that has begun to answer asks for as well, so that others can be asked for the rest. If it is late,
// its provider is asked for nothing else until it ends.
func (m *Machine) Sized(size int64, stored Stored) {
	m.begin()
	m.size, m.stored, m.resumed = size, stored, stored.Held()
	answered := m.groups()
	for _, r := range m.requests {
		if r.First > 0 {
			answered = min(answered, r.hi)
		}
	}
	for i, r := range m.requests {
		hi := m.groups()
		if r.First == 0 {
			hi = answered
		}
		if r.hi > hi {
			m.trim(r, hi)
		}
		r.hedge, r.shared = i > 0, len(m.requests) > 1
		if r.shared && r.First == 0 && m.now-r.asked >= m.cfg.HedgeAfter {
			r.hedged = true
			r.p.hedged++
		}
	}
	for _, w := range m.waiters {
		w.bound(size)
	}
}

// GroupLost reports that a stored group was lost, so that all are looked at again.
func (m *Machine) GroupLost() {
	m.places.freed++
	m.low = 0
	for _, w := range m.waiters {
		w.low = 0
	}
}

// Complete reports whether all groups are stored.
func (m *Machine) Complete() bool { return m.complete() }

// Wake returns when Advance is due if no event comes first. ok is false when only
// an event makes it due.
func (m *Machine) Wake() (at time.Duration, ok bool) { return m.wake, m.wake != never }

// Advance decides what to do at the time now. The driver carries out the actions
// in order. The slice is valid until the next call of a method.
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
		m.askSize()
	default:
		m.assign()
	}
	return m.out
}

func (m *Machine) end(k Kind) {
	m.ended = true
	m.emit(Action{Kind: k})
}

// wakeAt makes Advance due at a time, unless that time has passed.
func (m *Machine) wakeAt(at time.Duration) {
	if at > m.now {
		m.wake = min(m.wake, at)
	}
}

// settle ends the transfer. Answers that are nearly complete get time to end, so
// that their streams can be used for the next request.
func (m *Machine) settle() {
	if m.whole == never {
		m.whole = m.now
	}
	m.overtake()
	if len(m.requests) == 0 || m.now >= m.whole+settleTime {
		m.end(Done)
		return
	}
	m.wakeAt(m.whole + settleTime)
}

// idle cancels the requests in flight, as there is no waiter.
func (m *Machine) idle() {
	for _, r := range m.requests {
		m.cancel(r, Unwanted)
	}
	if len(m.requests) == 0 {
		m.release()
	}
}

// allowed reports whether requests may go out. If not, it asks for the permit.
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

// find asks the driver for another provider, unless it has no other.
func (m *Machine) find() {
	if m.finding || m.exhausted && m.known <= len(m.providers) {
		return
	}
	m.finding, m.exhausted = true, false
	m.emit(Action{Kind: Find})
}

// Result describes the end of a request.
type Result struct {
	Fresh   int64          // received groups that were missing
	Extra   int64          // received groups that were stored already
	Outcome status.Outcome // of the request
	Again   bool           // the provider may do better soon
}

// Verdict is the conclusion that the machine draws from an ended request.
type Verdict struct {
	Fault bool        // the request delivered too little, and the machine had not canceled it
	Retry bool        // the provider is asked again after a pause
	Hedge HedgeResult // how the request ended as a hedge

	// GaveUp says that the provider is not asked for this object again, or only when all others are
	// lost.
	GaveUp bool
}

// HedgeResult is the result of a request that hedged another one.
type HedgeResult uint8

// The results of a hedge.
const (
	NoHedge     HedgeResult = iota // the request hedged no other one
	HedgeWon                       // it delivered a group first
	HedgeLost                      // the other request delivered first
	HedgeFailed                    // it failed and delivered nothing
)
