// Package readiness tells whether a node serves reads and writes, and has its
// network (SPEC §10): a board of gates, of which two shut while queues are nearly
// full.
package readiness

import (
	"sync"
	"time"

	"allium/gateway/api"
)

// Scope says what of the service a gate holds back.
type Scope uint8

// The scopes of a gate.
const (
	Both    Scope = iota // neither reads nor writes without it
	Writes               // reads go on
	Network              // what is here is read and stored; others are not found, and do not find it
	Nothing              // it only tells: reads, writes and the network go on
)

// Reading is what a gate sees at one moment. It is ready when Have ≥ Need.
type Reading struct {
	Have, Need int64
	Fix        string        // what to do about it, in a sentence
	RetryAfter time.Duration // when to ask again; 0 means 1 s
}

// YesNo is the reading of a gate that is open or not.
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

	mu    sync.Mutex // guards last
	last  []bool
	since []time.Time
}

// NewBoard returns a board of these gates, none of which counts as ready yet.
func NewBoard(gates ...Gate) *Board {
	b := &Board{gates: gates, last: make([]bool, len(gates)), since: make([]time.Time, len(gates))}
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
		s := api.Gate{Name: g.Name, Ready: readings[i].Ready(), Have: readings[i].Have, Need: readings[i].Need, Since: since[i]}
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

// Ready reports whether the gate is open.
func (r Reading) Ready() bool { return r.Have >= r.Need }

// note keeps the times of change and returns them.
func (b *Board) note(readings []Reading) []time.Time {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	since := make([]time.Time, len(readings))
	for i, r := range readings {
		if r.Ready() != b.last[i] {
			b.last[i], b.since[i] = r.Ready(), now
		}
		since[i] = b.since[i]
	}
	return since
}
