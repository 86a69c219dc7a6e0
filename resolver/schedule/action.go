package schedule

import "time"

// Kind is the kind of order that an [Action] gives.
type Kind uint8

// The actions.
const (
	Ask      Kind = iota // request Run from Provider; with Proof, the proof of the size first
	Cancel               // end Request, for the reason Why
	Trim                 // let Request end before group At
	Notify               // call Advance when Request reaches group At
	Follow               // call Advance when the reader of Waiter reaches group At
	Find                 // look for one more provider; answer with Found or NoneFound
	Question             // ask Provider which groups of the window from At on it has; answer with Heard
	Acquire              // wait for the permit to have requests in flight; answer with Granted
	Release              // give the permit back, or stop waiting for it
	Fail                 // no provider has what Waiter demands
	GiveUp               // every waiter has failed; this is the last action
	Done                 // the object is whole; this is the last action
	Look                 // ask connected peers that are no candidates whether they have a part; answer with Looked
	Renew                // search again for providers, also for those that were lost
)

// Action is an order to the driver.
type Action struct {
	Kind     Kind
	Request  RequestID  // of Ask, Cancel, Trim and Notify
	Provider ProviderID // of Ask and Question
	Waiter   WaiterID   // of Follow and Fail
	Run      Run        // of Ask; empty when only the size is requested
	Proof    bool       // of Ask
	At       int64      // of Trim, Notify, Follow and Question
	Why      Why        // of Cancel
}

// Why is the reason for a Cancel.
type Why uint8

// The reasons.
const (
	NotCanceled Why = iota
	Late            // another provider delivered first, and this request has delivered nothing
	Overtaken       // another provider delivered first
	Unwanted        // no waiter needs the groups any more
)

// RequestID numbers the requests of a transfer from 1.
type RequestID int

// ProviderID numbers the providers from 0, in the order in which they were found.
type ProviderID int

// WaiterID is the driver's number for a waiter.
type WaiterID int

// Run is the groups [Lo, Hi).
type Run struct{ Lo, Hi int64 }

// empty reports whether r has no group.
func (r Run) empty() bool { return r.Lo >= r.Hi }

// without returns the first part of r that is not in taken, a list sorted by
// start. When there is none the result is empty, and its Lo is where the search
// continues.
func (r Run) without(taken []Run) Run {
	for _, t := range taken {
		if t.Lo <= r.Lo && r.Lo < t.Hi {
			r.Lo = t.Hi
		}
	}
	for _, t := range taken {
		if r.Lo < t.Lo && t.Lo < t.Hi {
			r.Hi = min(r.Hi, t.Lo)
		}
	}
	return r
}

// orders are the actions for the driver and the time at which Advance is due. The parts of a Machine share them.
type orders struct {
	now   time.Duration
	wake  time.Duration // when Advance is due, or never
	out   []Action
	taken bool // Advance has returned out
	ended bool // the last action was given
}

// begin sets the time, and empties the list if Advance has returned it.
func (o *orders) begin(now time.Duration) {
	o.now = max(o.now, now)
	if o.taken {
		o.out, o.taken = o.out[:0], false
	}
}

func (o *orders) emit(a Action) { o.out = append(o.out, a) }

func (o *orders) end(k Kind) {
	o.ended = true
	o.emit(Action{Kind: k})
}

// wakeAt makes Advance due at a time, unless that time has passed.
func (o *orders) wakeAt(at time.Duration) {
	if at > o.now {
		o.wake = min(o.wake, at)
	}
}

// Wake returns when Advance is due if no event comes first. ok is false when only
// an event makes it due.
func (o *orders) Wake() (at time.Duration, ok bool) { return o.wake, o.wake != never }

// permit is the driver's permit to have requests in flight.
type permit struct {
	*orders
	permitted, acquiring bool
}

// Granted answers Acquire: the driver has the permit.
func (p *permit) Granted() { p.permitted, p.acquiring = true, false }

// allowed reports whether requests may go out. If not, it asks for the permit.
func (p *permit) allowed() bool {
	if !p.permitted && !p.acquiring {
		p.acquiring = true
		p.emit(Action{Kind: Acquire})
	}
	return p.permitted
}

func (p *permit) release() {
	if p.permitted || p.acquiring {
		p.permitted, p.acquiring = false, false
		p.emit(Action{Kind: Release})
	}
}
