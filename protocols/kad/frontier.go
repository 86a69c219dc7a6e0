package kad

import "slices"

// frontier is what a lookup knows: the peers heard of, nearest to the target
// first.
//
// Invariants: list is sorted by distance; seen holds the IDs of list and self,
// each once; at most 2k are taken from the table and k from one answer, so there
// are never more than k × (2 + MaxProbes).
type frontier[P comparable] struct {
	target Key
	k      int
	list   []*candidate[P]
	seen   map[P]*candidate[P]
	block  []candidate[P] // candidates are allocated k at a time
	picks  []*candidate[P]
}

type candidate[P comparable] struct {
	Peer[P]
	distance distance
	hop      int
	state    state
	probe    probe
}

// state of a candidate. It only grows.
type state uint8

const (
	heard    state = iota
	asked          // in flight and on time
	late           // in flight
	answered       // terminal
	failed         // terminal
)

func newFrontier[P comparable](target Key, k int, self P) frontier[P] {
	return frontier[P]{target: target, k: k, seen: map[P]*candidate[P]{self: nil}}
}

// add takes in the first n of peers. A peer known already stays what it is, but
// for a shorter way to it.
func (f *frontier[P]) add(peers []Peer[P], n, hop int) {
	for _, p := range peers[:min(len(peers), n)] {
		if c, known := f.seen[p.ID]; known {
			if c != nil && c.state == heard {
				c.hop = min(c.hop, hop)
			}
			continue
		}
		if len(f.block) == cap(f.block) {
			f.block = make([]candidate[P], 0, f.k)
		}
		f.block = append(f.block, candidate[P]{Peer: p, distance: between(f.target, p.Key), hop: hop})
		c := &f.block[len(f.block)-1]
		f.seen[p.ID] = c
		i, _ := slices.BinarySearchFunc(f.list, c, func(a, b *candidate[P]) int { return a.distance.compare(b.distance) })
		f.list = slices.Insert(f.list, i, c)
	}
}

// view is the k nearest peers that neither failed nor are late.
type view[P comparable] struct {
	ask      []*candidate[P] // up to n nearest still to be asked; valid until the next look
	spare    *candidate[P]   // the nearest still to be asked of the few that follow the k
	waiting  bool            // for one that is on time
	tooFar   bool            // one is beyond the hop budget
	answered int
	late     bool // one was passed over as late
}

// look judges the k nearest, and looks for a spare among as many that follow.
func (f *frontier[P]) look(n, spares, hops int) (v view[P]) {
	v.ask = f.picks[:0]
	size := 0
	for _, c := range f.list {
		if c.state == failed {
			continue
		}
		if c.state == late {
			v.late = v.late || size < f.k
			continue
		}
		if size++; size > f.k+spares {
			break
		}
		switch {
		case size > f.k:
			if c.state == heard && c.hop <= hops && v.spare == nil {
				v.spare = c
			}
		case c.state == answered:
			v.answered++
		case c.state == asked:
			v.waiting = true
		case c.hop > hops:
			v.tooFar = true
		case len(v.ask) < n:
			v.ask = append(v.ask, c)
		}
	}
	f.picks = v.ask
	return v
}

// closest is up to k peers that answered, nearest first.
func (f *frontier[P]) closest() []Peer[P] {
	peers := make([]Peer[P], 0, f.k)
	for _, c := range f.list {
		if c.state == answered {
			if peers = append(peers, c.Peer); len(peers) == f.k {
				break
			}
		}
	}
	return peers
}
