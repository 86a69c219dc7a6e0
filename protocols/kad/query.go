package kad

import "time"

// Peer is a peer that can be asked. The caller computes Key from ID and never
// accepts a key from the network.
type Peer[P comparable] struct {
	ID  P
	Key Key
}

// Query describes what a lookup searches for.
type Query[P comparable] struct {
	Target Key
	Self   P // the node itself, never asked

	// Quorum ends the lookup early; nil is [Closest].
	Quorum Quorum

	// HedgeAfter returns the hedge delay of one peer, such as [RTT.HedgeAfter]. nil
	// means Config.HedgeAfter for every peer. It is not called if Config.HedgeAfter
	// is 0. It must be pure.
	HedgeAfter func(P) time.Duration

	// Seed determines the order in which the closest peers are asked.
	Seed uint64
}

// Reply is the response of a peer. Providers and Values count only results that are
// verified and new to the lookup. The lookup uses only the first k peers of Closer. If
// the first is the target itself, it uses k more: kad-dht names the target before the k
// closest, even if it is not one of the network's servers.
type Reply[P comparable] struct {
	Closer    []Peer[P]
	Providers int
	Values    int
}

// Progress holds the sums over all responses so far.
type Progress struct{ Answers, Providers, Values int }

// Quorum reports whether the results so far are enough. It must be pure.
type Quorum func(Progress) bool

// Closest never ends a lookup early: it runs until the k closest peers have answered.
func Closest() Quorum { return func(Progress) bool { return false } }

// FirstProvider ends a lookup at the first provider.
func FirstProvider() Quorum { return Providers(1) }

// Providers ends a lookup at n providers.
func Providers(n int) Quorum { return func(p Progress) bool { return p.Providers >= n } }

// Values ends a lookup at n values.
func Values(n int) Quorum { return func(p Progress) bool { return p.Values >= n } }

// Kind says what the driver does for an [Action].
type Kind uint8

// The kinds of actions.
const (
	Probe  Kind = iota // ask Peer
	Hedge              // ask Peer, because an earlier probe is late
	Cancel             // stop waiting for Peer: it timed out, its slot is needed, or the lookup ended
	Done               // the lookup ended; see [Lookup.Result]
)

// Action is an instruction to the driver. Peer and Hop are set for Probe, Hedge and
// Cancel. Until is set for Probe and Hedge: the time at which the probe is canceled.
type Action[P comparable] struct {
	Kind  Kind
	Peer  Peer[P]
	Hop   int
	Until time.Duration
}

// End says why a lookup ended.
type End uint8

// The reasons.
const (
	Running       End = iota // the lookup has not ended
	Satisfied                // the quorum is met
	Converged                // the closest peers that answer, up to k, have answered
	HopExceeded              // the closest known peers are beyond the hop budget
	ProbeExceeded            // MaxProbes probes were sent
	TimedOut                 // the deadline passed
	NoPeers                  // the routing table was empty
)

// String returns the name of the reason.
func (e End) String() string {
	return [...]string{"running", "satisfied", "converged", "hop_exceeded", "probe_exceeded",
		"timed_out", "no_peers"}[e]
}

// Result is the outcome of a lookup. It may be read before the end.
type Result[P comparable] struct {
	End      End
	Closest  []Peer[P] // up to k peers that answered, nearest first
	Progress           // sums over all responses
	Hops     int       // hop of the last response that counted; 0: none did
	Probes   int       // sent, hedges included
	Hedges   int
	Failed   int           // errors and timeouts
	Canceled int           // late and canceled for its slot, or in flight at the end
	Took     time.Duration // from the start to the end
}
