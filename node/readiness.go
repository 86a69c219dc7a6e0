package node

import (
	"sync"
	"time"

	"allium/gateway/client"
)

// Scope says which half of the service a gate holds back.
type Scope uint8

// The scopes of a gate.
const (
	GatesBoth   Scope = iota // neither reads nor writes without it
	GatesWrites              // reads go on
)

// Reading is what a gate sees at one moment. It is ready when Have ≥ Need.
type Reading struct {
	Have, Need int64
	Fix        string        // what to do about it, in a sentence
	RetryAfter time.Duration // when to ask again; 0 means 1 s
}

// yesNo is the reading of a gate that is open or not.
func yesNo(ready bool, fix string) Reading {
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
func (b *Board) Report() client.Readiness {
	readings := make([]Reading, len(b.gates))
	for i, g := range b.gates {
		readings[i] = g.Check()
	}
	since := b.note(readings)

	r := client.Readiness{Reads: true, Writes: true, Gates: make([]client.Gate, len(b.gates))}
	for i, g := range b.gates {
		s := client.Gate{Name: g.Name, Ready: readings[i].ready(), Have: readings[i].Have, Need: readings[i].Need, Since: since[i]}
		if !s.Ready {
			r.Writes = false
			r.Reads = r.Reads && g.Scope == GatesWrites
			s.Fix = readings[i].Fix
			s.RetryAfter = int64(max(readings[i].RetryAfter, time.Second).Seconds())
		}
		r.Gates[i] = s
	}
	r.Ready = r.Reads && r.Writes
	return r
}

func (r Reading) ready() bool { return r.Have >= r.Need }

// note keeps the times of change and returns them.
func (b *Board) note(readings []Reading) []time.Time {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	since := make([]time.Time, len(readings))
	for i, r := range readings {
		if r.ready() != b.last[i] {
			b.last[i], b.since[i] = r.ready(), now
		}
		since[i] = b.since[i]
	}
	return since
}
