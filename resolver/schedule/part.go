package schedule

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"allium/protocols/b3"
)

// Window is the number of groups that are known at a time of a provider with a part: 4 GiB. A window begins at a
// multiple of it.
const Window = 1 << 16

// Holding is a provider's answer to Question. It is a claim.
type Holding struct {
	Failed   bool // it has not answered
	Presence b3.Presence
	// Groups has a bit for each group of the window that a provider with a part has, the lowest bit first. The provider
	// does not have groups beyond it.
	Groups []byte
}

// part describes the groups of a provider that does not have the whole object.
type part struct {
	from   int64 // the first group of the window
	groups bitfield
	due    time.Duration // when it is asked again
	still  int           // answers in a row that offered nothing that is needed
	dry    int           // object.freed when nothing of it was needed; 0: that is not so
}

// A provider with a part is asked anew after partEvery, and after 2^partSlower times as long while it offers nothing
// that is needed. One that has offered nothing in maxStill answers in a row is not waited for when nobody has what a
// waiter needs.
const (
	partEvery  = 500 * time.Millisecond
	partSlower = 1
	maxStill   = 5
)

// longRequest is the longest that a request lasts among nodes that fetch from each other.
const longRequest = time.Second

// bitfield is a set of numbers from 0, eight in a byte, the lowest bit first.
type bitfield []byte

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

// lacked takes r from the part.
func (p *part) lacked(r Run) {
	for g := max(0, r.Lo-p.from); g < min(r.Hi-p.from, int64(len(p.groups))*8); g++ {
		p.groups[g>>3] &^= 1 << (g & 7)
	}
}

// Heard answers Question. It reports that the provider is not asked any more, as it has nothing to offer.
func (m *Machine) Heard(now time.Duration, id ProviderID, h Holding) (gaveUp bool) {
	m.begin(now)
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
		m.hear(p, h)
	}
	m.gather(m.waiters.window())
	m.shorten()
	return gaveUp
}

// hear takes the answer of a provider with a part.
func (m *Machine) hear(p *provider, h Holding) {
	old := p.part
	if old == nil || !h.Failed {
		p.part = &part{from: p.window, groups: h.Groups[:min(len(h.Groups), Window/8)]}
	}
	p.noProof = p.noProof && h.Failed
	if old != nil {
		p.part.still = old.still + 1
		if m.stored != nil && slices.ContainsFunc(m.waiters, func(w *waiter) bool {
			return !w.failed && !m.search(p.offers, Run{w.from(), w.limit()}).empty()
		}) {
			p.part.still = 0
		}
	}
	p.part.due = m.now + partEvery<<min(p.part.still, partSlower)
	if p.standing == unsure {
		p.standing = good
	}
}

// common joins the parts of the window of all providers.
type common struct {
	parts  int   // providers
	from   int64 // the first group of the window
	groups bitfield
}

// gather notes what the good providers with a part of the window have together.
func (s *supply) gather(window int64) {
	c := &s.common
	c.parts, c.from, c.groups = 0, window, c.groups[:0]
	for _, p := range s.providers {
		if p.part == nil || p.standing != good || p.part.from != window {
			continue
		}
		c.parts++
		if more := len(p.part.groups) - len(c.groups); more > 0 {
			c.groups = append(c.groups, make([]byte, more)...)
		}
		for i, b := range p.part.groups {
			c.groups[i] |= b
		}
	}
}

// first returns the first group of [from, to) that somebody has, or to.
func (c *common) first(from, to int64) int64 {
	if from >= to || from < c.from {
		return to
	}
	return c.from + c.groups.first(from-c.from, to-c.from, true)
}

// rare returns the first run of r that nobody has.
func (c *common) rare(r Run) Run {
	if r.Hi <= c.from || r.Lo >= c.from+Window {
		return r
	}
	lo := c.from + c.groups.first(max(r.Lo-c.from, 0), r.Hi-c.from, false)
	return Run{lo, c.first(lo, r.Hi)}
}

// shorten lets requests of before, which may be large and in order, end soon, so that what follows is asked for at
// places that chance draws. One to a provider that has all ends where faster ones have what it asks for. A reader's
// requests stay: it needs them in order.
func (m *Machine) shorten() {
	if m.common.parts == 0 || m.stored == nil || !m.waiters.whole() {
		return
	}
	for _, r := range m.requests {
		if !r.alone() || r.left() == 0 {
			continue
		}
		hi := r.Next + max(1, int64(r.speed()*longRequest.Seconds()/b3.GroupSize))
		if m.spares(r.p) {
			hi = m.common.first(r.Next, hi)
		}
		switch {
		case hi == r.Next:
			m.cancel(r, Overtaken)
		case hi < r.hi:
			m.trim(r, hi)
		}
	}
}

// places draws the places at which nodes that fetch from each other ask for groups.
type places struct {
	rng  *rand.Rand
	next int64 // the group after the run that a provider with all was asked for last; −1: there is none
}

// mix gives chance a say in the order of providers, which then begins with those that are likely to answer soon. What
// is known of one that was asked long ago is of a time when others asked it as well, and the few that were fast for
// all would soon be slow.
func (d *places) mix(all []*provider) {
	took := make(map[*provider]float64, len(all))
	for _, p := range all {
		one := p.rtt
		if p.rate > 0 {
			one += timeFor(1, p.rate)
		}
		took[p] = one.Seconds() * d.rng.Float64()
	}
	slices.SortStableFunc(all, func(a, b *provider) int { return cmp.Compare(took[a], took[b]) })
}
