package schedule

import "strconv"

// Kind is what to do.
type Kind uint8

// The actions.
const (
	Ask      Kind = iota // ask Provider for Run; with Proof, for the proof of the size first
	Cancel               // end Request, because of Why
	Trim                 // let Request end before group At
	Notify               // call Advance when Request comes to group At
	Follow               // call Advance when the reader of Waiter comes to group At
	Find                 // look for one more provider; Found or NoneFound answers
	Question             // ask Provider how much of the object it has; Heard answers
	Acquire              // wait for the permit to have requests in flight; Granted answers
	Release              // give the permit back, or stop waiting for it
	Fail                 // Waiter cannot have what it wants
	GiveUp               // no waiter can; nothing follows
	Done                 // the object is whole; nothing follows
)

func (k Kind) String() string {
	return [...]string{
		"ask", "cancel", "trim", "notify", "follow", "find", "question", "acquire", "release", "fail", "give up", "done",
	}[k]
}

// Action is an order to the driver.
type Action struct {
	Kind     Kind
	Request  RequestID  // of Ask, Cancel, Trim and Notify
	Provider ProviderID // of Ask and Question
	Waiter   WaiterID   // of Follow and Fail
	Run      Run        // of Ask; empty when only the size is asked for
	Proof    bool       // of Ask
	At       int64      // of Trim, Notify and Follow
	Why      Why        // of Cancel
}

// Why is the reason for a Cancel.
type Why uint8

// The reasons.
const (
	NotCanceled Why = iota
	Late            // another provider was faster, and nothing had come of this request
	Overtaken       // another provider was faster
	Unwanted        // nobody waits for it any more
)

func (w Why) String() string { return [...]string{"", "late", "overtaken", "unwanted"}[w] }

// RequestID numbers the requests of a transfer from 1.
type RequestID int

// ProviderID numbers the providers from 0, in the order in which they were found.
type ProviderID int

// WaiterID is the driver's number for a waiter.
type WaiterID int

// Run is groups [Lo, Hi).
type Run struct{ Lo, Hi int64 }

func (r Run) String() string {
	return "[" + strconv.FormatInt(r.Lo, 10) + "," + strconv.FormatInt(r.Hi, 10) + ")"
}

// without cuts r to its first part that is not taken, which is sorted by start.
// It is empty when there is none, and starts where to look on.
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

// overlaps reports whether r and o have a group in common.
func (r Run) overlaps(o Run) bool { return r.Lo < o.Hi && o.Lo < r.Hi }

// actions is what the driver is told next.
type actions struct {
	out   []Action
	taken bool // out was returned
}

// begin empties the list when it has been returned.
func (a *actions) begin() {
	if a.taken {
		a.out, a.taken = a.out[:0], false
	}
}

func (a *actions) emit(next Action) { a.out = append(a.out, next) }
