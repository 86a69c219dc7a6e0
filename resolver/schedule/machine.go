package schedule

import (
	"math/rand/v2"
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
type Machine struct {
	*orders // of all parts
	permit
	object  // the groups that are stored and requested
	supply  // the providers
	waiters // the demands

	places    places
	sizeAsked time.Duration // when a provider was asked for the size last
	completed time.Duration // when the object was found to be whole, or never
}

// New prepares a transfer.
func New(cfg Config) *Machine {
	if cfg.HedgeAfter == 0 {
		cfg.HedgeAfter = DefaultHedgeAfter
	}
	o := &orders{wake: never}
	return &Machine{
		orders: o, permit: permit{orders: o}, object: object{orders: o, freed: 1}, supply: supply{orders: o, cfg: cfg},
		places: places{rand.New(rand.NewPCG(cfg.Seed, 0)), -1}, completed: never,
	}
}

// Join adds a waiter. Its number must not be in use.
func (m *Machine) Join(id WaiterID, w Demand) {
	m.waiters = append(m.waiters, &waiter{Demand: w, id: id})
	m.freed++
}

// Sized sets the proved size and where to see which groups are stored. A request that has brought nothing is trimmed
// to what one that has begun to answer asks for as well, so that others can be asked for the rest. If it is late,
// its provider is asked for nothing else until it ends.
func (m *Machine) Sized(size int64, stored Stored) {
	m.begin(m.now)
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
		if r.shared && m.silent(r) {
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
	m.freed++
	m.low = 0
	for _, w := range m.waiters {
		w.low = 0
	}
}

// Advance decides what to do at the time now. The driver carries out the actions
// in order. The slice is valid until the next call of a method.
func (m *Machine) Advance(now time.Duration) []Action {
	m.begin(now)
	m.taken, m.wake = true, never
	switch {
	case m.ended:
	case m.Complete():
		m.settle()
	case len(m.waiters) == 0:
		m.pause()
	case m.stored == nil:
		m.askSize()
	default:
		m.assign()
	}
	return m.out
}

// settle ends the transfer. Answers that are nearly complete get time to end, so
// that their streams can be used for the next request.
func (m *Machine) settle() {
	m.completed = min(m.completed, m.now)
	m.overtake()
	if len(m.requests) == 0 || m.now >= m.completed+settleTime {
		m.end(Done)
		return
	}
	m.wakeAt(m.completed + settleTime)
}

// pause cancels the requests in flight, as there is no waiter.
func (m *Machine) pause() {
	for _, r := range m.requests {
		m.cancel(r, Unwanted)
	}
	if len(m.requests) == 0 {
		m.release()
	}
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
