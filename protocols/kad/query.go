package kad

import "time"

// Peer is somebody to ask. The caller computes Key from ID: what a stranger
// says a key is decides nothing.
type Peer[P comparable] struct {
	ID  P
	Key Key
}

// Query is what a lookup is for.
type Query[P comparable] struct {
	Target Key
	Self   P // is never asked

	// Quorum ends the lookup early; nil is [Closest].
	Quorum Quorum

	// HedgeAfter is the hedge delay of one peer, such as [RTT.HedgeAfter]; nil
	// means Config.HedgeAfter for everybody. It is not called in the patient
	// mode and must be pure.
	HedgeAfter func(P) time.Duration

	// Seed of the order in which the closest are asked.
	Seed uint64
}

// Reply is what a peer answered. Providers and Values count only what was
// verified and is new to the lookup. Of Closer only the first k count, an honest
// answer has no more.
type Reply[P comparable] struct {
	Closer    []Peer[P]
	Providers int
	Values    int
}

// Progress is what a quorum judges: sums over all answers so far.
type Progress struct{ Answers, Providers, Values int }

// Quorum says whether what was found satisfies. It must be pure.
type Quorum func(Progress) bool

// Closest is satisfied by nothing less than the k closest.
func Closest() Quorum { return func(Progress) bool { return false } }

// FirstProvider is satisfied by one provider.
func FirstProvider() Quorum { return Providers(1) }

// Providers is satisfied by n providers.
func Providers(n int) Quorum { return func(p Progress) bool { return p.Providers >= n } }

// Values is satisfied by n values.
func Values(n int) Quorum { return func(p Progress) bool { return p.Values >= n } }

// Kind is what to do.
type Kind uint8

// The actions.
const (
	Probe  Kind = iota // ask Peer
	Hedge              // ask Peer, in place of a late probe
	Cancel             // stop waiting for Peer: it failed by time, its place is needed, or the lookup ends
	Done               // nothing follows; see [Lookup.Result]
)

func (k Kind) String() string { return [...]string{"probe", "hedge", "cancel", "done"}[k] }

// Action is an order to the driver. Peer and Hop are of a probe, hedge or
// cancel; Until is of a probe or hedge: the time at which it is cancelled.
type Action[P comparable] struct {
	Kind  Kind
	Peer  Peer[P]
	Hop   int
	Until time.Duration
}

// End is why a lookup ended.
type End uint8

// The ends.
const (
	Running       End = iota // it has not
	Satisfied                // the quorum is
	Converged                // the closest peers that answer, up to k, have
	HopExceeded              // the closest known are beyond the hop budget
	ProbeExceeded            // MaxProbes were sent
	TimedOut                 // the deadline came first
	NoPeers                  // there was nobody to ask
)

func (e End) String() string {
	return [...]string{"running", "satisfied", "converged", "hop_exceeded", "probe_exceeded", "timed_out", "no_peers"}[e]
}

// Result is what a lookup came to. It may be read before the end.
type Result[P comparable] struct {
	End      End
	Closest  []Peer[P] // up to k that answered, nearest first
	Progress           // of all answers
	Hops     int       // of the last answer that counted; 0: none did
	Probes   int       // sent, hedges included
	Hedges   int
	Failed   int           // errors and timeouts
	Canceled int           // late and given up for another, or in flight at the end
	Took     time.Duration // from the start to the end
}
