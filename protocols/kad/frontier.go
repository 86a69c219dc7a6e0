package kad

import "slices"

// frontier holds the peers that a lookup has heard of, nearest to the target first.
//
// Invariants: list is sorted by distance. seen holds the IDs of list and the node's
// own, each once. At most 2k peers come from the table, at most k from one response,
// and the target, so list never exceeds k × (2 + MaxProbes) + 1.
type frontier[P comparable] struct {
	target Key
	k      int
	list   []*candidate[P]
	seen   map[P]*candidate[P]
	chunk  []candidate[P] // backing array of candidates, allocated k at a time
	askBuf []*candidate[P]
}

type candidate[P comparable] struct {
	Peer[P]
	distance distance
	hop      int
	state    state
	probe    probe
}

// state is the progress of a candidate. It only increases.
type state uint8

const (
	unasked  state = iota
	asked          // in flight and not late
	late           // in flight and late
	answered       // final
	failed         // final
)

func newFrontier[P comparable](target Key, k int, self P) frontier[P] {
	return frontier[P]{target: target, k: k, seen: map[P]*candidate[P]{self: nil}}
}

// add inserts the first n of peers. If a peer is already known and has not been
// asked, add lowers its hop count to hop.
func (f *frontier[P]) add(peers []Peer[P], n, hop int) {
	for _, p := range peers[:min(len(peers), n)] {
		if c, known := f.seen[p.ID]; known {
			if c != nil && c.state == unasked {
				c.hop = min(c.hop, hop)
			}
			continue
		}
		if len(f.chunk) == cap(f.chunk) {
			f.chunk = make([]candidate[P], 0, f.k)
		}
		f.chunk = append(f.chunk, candidate[P]{Peer: p, distance: xor(f.target, p.Key), hop: hop})
		c := &f.chunk[len(f.chunk)-1]
		f.seen[p.ID] = c
		i, _ := slices.BinarySearchFunc(f.list, c,
			func(a, b *candidate[P]) int { return a.distance.compare(b.distance) })
		f.list = slices.Insert(f.list, i, c)
	}
}

// survey describes the k nearest candidates that are neither failed nor late.
type survey[P comparable] struct {
	toAsk       []*candidate[P] // up to n nearest unasked candidates; valid until the next survey
	spare       *candidate[P]   // nearest unasked candidate just behind the k nearest
	waiting     bool            // a candidate is asked and not late
	tooFar      bool            // a candidate is beyond the hop budget
	answered    int
	skippedLate bool // a late candidate lies among the k nearest
}

// survey examines the k nearest candidates and looks for a spare among the next
// spares candidates.
func (f *frontier[P]) survey(n, spares, hops int) (v survey[P]) {
	v.toAsk = f.askBuf[:0]
	size := 0
	for _, c := range f.list {
		if c.state == failed {
			continue
		}
		if c.state == late {
			v.skippedLate = v.skippedLate || size < f.k
			continue
		}
		if size++; size > f.k+spares {
			break
		}
		switch {
		case size > f.k:
			if c.state == unasked && c.hop <= hops && v.spare == nil {
				v.spare = c
			}
		case c.state == answered:
			v.answered++
		case c.state == asked:
			v.waiting = true
		case c.hop > hops:
			v.tooFar = true
		case len(v.toAsk) < n:
			v.toAsk = append(v.toAsk, c)
		}
	}
	f.askBuf = v.toAsk
	return v
}

// closest returns up to k peers that answered, nearest first.
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
