package schedule

import (
	"math/bits"
	"slices"
	"time"

	"allium/protocols/b3"
)

// Window is how many groups of a provider with a part of the object are known at a time: 4 GiB. The window begins at
// a multiple of Window.
const Window = 1 << 16

// Holding is a provider's answer to Question. It is a claim.
type Holding struct {
	Failed   bool // it has not answered
	Presence b3.Presence
	// Groups has a bit for each group of the window that a provider with a part has, the lowest bit first. What is
	// not there it does not have.
	Groups []byte
}

// part is what a provider has that does not have the whole object.
type part struct {
	from   int64 // the first group of the window
	groups bitfield
	due    time.Duration // when it is asked again
	still  int           // answers in a row that said nothing new
	dry    int           // Machine.freed when nothing of it was needed; 0: that is not so
}

// A provider with a part is asked anew while it has more each time after partEvery, else after longer pauses, at
// most 2^partSlower times as long. One that has said nothing new in maxStill answers in a row is not waited for when
// nobody has what a waiter needs.
const (
	partEvery  = 500 * time.Millisecond
	partSlower = 1
	maxStill   = 3
)

// longRequest is the longest that a request lasts among nodes that fetch from each other.
const longRequest = time.Second

// bitfield is a set of numbers from 0, eight in a byte, the lowest bit first.
type bitfield []byte

// has reports whether i is in the set.
func (b bitfield) has(i int64) bool {
	return i >= 0 && i>>3 < int64(len(b)) && b[i>>3]>>(i&7)&1 != 0
}

// first returns the first number of [from, to) that is in the set, or else that is not, or to.
func (b bitfield) first(from, to int64, in bool) int64 {
	for from < to {
		var rest byte // of the byte of from, as if in were true
		if from>>3 < int64(len(b)) {
			rest = b[from>>3]
		}
		if !in {
			rest = ^rest
		}
		if rest >>= from & 7; rest != 0 {
			return min(to, from+int64(bits.TrailingZeros8(rest)))
		}
		from = from&^7 + 8
	}
	return to
}

// within returns the first run of r that is in the part. It is empty when there is none.
func (p *part) within(r Run) Run {
	lo, hi := max(r.Lo, p.from)-p.from, min(r.Hi, p.from+Window)-p.from
	if lo >= hi {
		return Run{}
	}
	lo = p.groups.first(lo, hi, true)
	return Run{p.from + lo, p.from + p.groups.first(lo, hi, false)}
}

// has reports whether p may have all of r.
func (p *provider) has(r Run) bool { return p.part == nil || p.part.within(r) == r }

// lacked takes r from the part.
func (p *part) lacked(r Run) {
	for g := max(0, r.Lo-p.from); g < min(r.Hi-p.from, int64(len(p.groups))*8); g++ {
		p.groups[g>>3] &^= 1 << (g & 7)
	}
}

// window returns the first group of the window in which groups are needed next.
func (m *Machine) window() int64 {
	first := int64(-1)
	for _, w := range m.waiters {
		if at := w.head(1).Lo; !w.failed {
			if w.set {
				at = w.from()
			}
			if first < 0 || at < first {
				first = at
			}
		}
	}
	return max(first, 0) &^ (Window - 1)
}

// question asks the driver how much of the object p has.
func (m *Machine) question(p *provider) {
	if p.asked {
		return
	}
	p.asked, p.window = true, m.window()
	m.questions++
	m.emit(Action{Kind: Question, Provider: p.id, At: p.window})
}

// questionParts asks anew the providers that have a part, as they may have more.
func (m *Machine) questionParts() {
	window := m.window()
	for _, p := range m.providers {
		switch {
		case p.part == nil || p.standing != good || p.asked:
		case m.now >= p.part.due, p.part.from != window:
			m.question(p)
		default:
			m.wakeAt(p.part.due)
		}
	}
}

// Heard answers Question. It reports that the provider is not asked any more, as it has nothing to offer.
func (m *Machine) Heard(now time.Duration, id ProviderID, h Holding) (gaveUp bool) {
	m.begin()
	m.now = max(m.now, now)
	p := m.providers[id]
	m.questions--
	p.asked = false
	switch {
	case p.standing == lost: // it lied meanwhile, or failed too often
	case p.part == nil && (h.Failed || h.Presence != b3.Partial), !h.Failed && h.Presence == b3.Absent:
		p.become(lost)
		gaveUp = true
	case !h.Failed && h.Presence == b3.Complete:
		p.part, p.noProof = nil, false
	default:
		p.heard(m.now, h)
	}
	m.gather()
	return gaveUp
}

// heard takes the answer of a provider with a part.
func (p *provider) heard(now time.Duration, h Holding) {
	old := p.part
	if old == nil || !h.Failed {
		p.part = &part{from: p.window, groups: h.Groups[:min(len(h.Groups), Window/8)]}
	}
	grown := old == nil || old.from != p.part.from
	for g := int64(0); !grown && g < int64(len(p.part.groups))*8; g++ {
		g = p.part.groups.first(g, Window, true)
		grown = g < Window && !old.groups.has(g)
	}
	if grown {
		p.noProof = false
	} else {
		p.part.still = old.still + 1
	}
	p.part.due = now + partEvery<<min(p.part.still, partSlower)
	if p.standing == unsure {
		p.standing = good
	}
}

// gather notes what the providers with a part have together. Requests of before, which may be large and in order,
// then end soon, so that what follows is asked for at places that chance draws.
func (m *Machine) gather() {
	m.parts, m.common = 0, m.common[:0]
	window := m.window()
	for _, p := range m.providers {
		if p.part == nil || p.standing != good || p.part.from != window {
			continue
		}
		m.parts++
		if more := len(p.part.groups) - len(m.common); more > 0 {
			m.common = append(m.common, make([]byte, more)...)
		}
		for i, b := range p.part.groups {
			m.common[i] |= b
		}
	}
	for _, r := range m.requests {
		if m.parts == 0 || m.stored == nil || r.shared || r.canceled != NotCanceled {
			continue
		}
		hi := r.Next + max(1, int64(r.speed()*longRequest.Seconds()/b3.GroupSize))
		if r.p.part == nil {
			hi = min(hi, m.firstCommon(r.Next+1, hi))
		}
		if hi < r.hi {
			m.trim(r, hi)
		}
	}
}

// growing reports whether a provider with a part may have more soon.
func (s *supply) growing() bool {
	return slices.ContainsFunc(s.providers, func(p *provider) bool {
		return p.standing == good && p.part != nil && p.part.still < maxStill
	})
}

// scattered returns a run of [from, to) that is neither stored nor requested and that p may have, at a place that
// chance draws: nodes that fetch from each other at the same time so have different groups to give. Of one that has
// all it is a run that no provider with a part has, if there is one.
func (m *Machine) scattered(from, to int64, p *provider) (Run, bool) {
	if p.part != nil && p.part.dry == m.freed {
		return Run{}, false
	}
	at := max(from, (from+m.rng.Int64N(max(1, to-from)))&^(pieceGroups-1))
	for _, rare := range []bool{true, false} {
		switch {
		case rare && p.part != nil:
			continue
		case !rare && m.spares(p):
			return Run{}, false
		}
		for _, r := range []Run{{at, to}, {from, at}} {
			if r = m.search(r, p, rare); r.Lo < r.Hi {
				return r, true
			}
		}
	}
	if p.part != nil {
		p.part.dry = m.freed
	}
	return Run{}, false
}

// spares reports whether p, which has all, is asked for nothing that providers with a part have: one of them is
// faster.
func (s *supply) spares(p *provider) bool {
	return p.part == nil && slices.ContainsFunc(s.providers, func(o *provider) bool {
		return o.part != nil && o.standing == good && o.rate > p.rate
	})
}

// firstCommon returns the first group of [from, to) that a provider with a part has, or to.
func (m *Machine) firstCommon(from, to int64) int64 {
	base := m.window()
	if from >= to || from < base {
		return to
	}
	return base + m.common.first(from-base, to-base, true)
}

// rare returns the first run of r that no provider with a part has.
func (m *Machine) rare(r Run) Run {
	base := m.window()
	if r.Hi <= base || r.Lo >= base+Window {
		return r
	}
	lo := base + m.common.first(max(r.Lo, base)-base, r.Hi-base, false)
	return Run{lo, base + m.common.first(lo-base, r.Hi-base, true)}
}
