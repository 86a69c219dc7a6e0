// Package readiness reports whether a node can serve reads and writes, and has found
// its network (SPEC §10). Each condition is a [Gate] on the node's [Board]. Two of
// the gates are those of [Pressure]: they shut while queues are nearly full.
//
// Invariants: the node is ready when every gate is ready whose scope is not Nothing;
// a check of a gate does no I/O; the time since when a gate is ready or not is known.
//
// One request of /readyz, walked through: the gateway calls [Board.Report], which
// calls the Check of every gate and compares each [Reading] with the one before. The
// gates pressure_writes and pressure_reads answer with what [Pressure.Run] saw when it
// last looked at the queues, at most 100 ms ago. [Log] writes to the log whenever the
// answer changes.
package readiness

import (
	"sync"
	"time"

	"allium/gateway/api"
)

// Scope is the part of the service that needs a gate.
type Scope uint8

// The scopes of a gate.
const (
	Both    Scope = iota // reads, writes and the network need it
	Writes               // writes need it; reads go on
	Network              // finding peers, and being found, needs it; local reads and writes go on
	Nothing              // nothing needs it: the gate only informs
)

// Reading is the state of a gate at one moment. The gate is ready when Have ≥ Need.
type Reading struct {
	Have, Need int64
	Fix        string        // what to do if the gate is not ready, in a sentence
	RetryAfter time.Duration // when to ask again; 0 means 1 s
}

// YesNo returns the reading of a gate that is ready or not, without numbers.
func YesNo(ready bool, fix string) Reading {
	r := Reading{Need: 1, Fix: fix}
	if ready {
		r.Have = 1
	}
	return r
}

// Gate is one condition of readiness (SPEC §10). Check is cheap, does no I/O
// and may be called by any number of goroutines at once.
type Gate struct {
	Name  string
	Scope Scope
	Check func() Reading
}

// Board holds the node's gates in the order they open at start.
type Board struct {
	gates []Gate

	mu    sync.Mutex  // guards ready and since; lock: leaf
	ready []bool      // by gate, at the last Report
	since []time.Time // by gate: when ready changed last
}

// NewBoard returns a board with these gates. No gate counts as ready yet.
func NewBoard(gates ...Gate) *Board {
	b := &Board{gates: gates, ready: make([]bool, len(gates)), since: make([]time.Time, len(gates))}
	now := time.Now()
	for i := range b.since {
		b.since[i] = now
	}
	return b
}

// Report reads every gate, in the order they open at start.
func (b *Board) Report() api.Readiness {
	readings := make([]Reading, len(b.gates))
	for i, g := range b.gates {
		readings[i] = g.Check()
	}
	since := b.note(readings)

	r := api.Readiness{Reads: true, Writes: true, Network: true, Gates: make([]api.Gate, len(b.gates))}
	for i, g := range b.gates {
		s := api.Gate{
			Name: g.Name, Ready: readings[i].Ready(), Have: readings[i].Have, Need: readings[i].Need, Since: since[i],
		}
		if !s.Ready {
			r.Reads = r.Reads && g.Scope != Both
			r.Writes = r.Writes && g.Scope != Both && g.Scope != Writes
			r.Network = r.Network && g.Scope != Both && g.Scope != Network
			s.Fix = readings[i].Fix
			s.RetryAfter = int64(max(readings[i].RetryAfter, time.Second).Seconds())
		}
		r.Gates[i] = s
	}
	r.Ready = r.Reads && r.Writes && r.Network
	return r
}

// Needed reads every gate that something needs, in the order they open at start.
func (b *Board) Needed() []api.Gate {
	all := b.Report().Gates
	needed := make([]api.Gate, 0, len(all))
	for i, g := range b.gates {
		if g.Scope != Nothing {
			needed = append(needed, all[i])
		}
	}
	return needed
}

// Ready reports whether Have ≥ Need.
func (r Reading) Ready() bool { return r.Have >= r.Need }

// note records which gates have changed, and returns when each changed last.
func (b *Board) note(readings []Reading) []time.Time {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	since := make([]time.Time, len(readings))
	for i, r := range readings {
		if r.Ready() != b.ready[i] {
			b.ready[i], b.since[i] = r.Ready(), now
		}
		since[i] = b.since[i]
	}
	return since
}
