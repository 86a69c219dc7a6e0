package kad

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Lookup is one lookup. Times are durations since an instant of the caller's
// choice; a time before the last one counts as the last one. A Lookup is for
// one goroutine. The actions that a method returns are in order, and valid until
// the next call.
//
// Invariants: flight holds the candidates in state asked and late, in the order
// of their probes; onTime counts the asked; onTime ≤ slots(); len(flight) ≤ α+β;
// once result.End is set flight is empty and no method returns an action.
type Lookup[P comparable] struct {
	cfg    Config
	query  Query[P]
	rng    rand.PCG
	front  frontier[P]
	flight []*candidate[P]
	onTime int
	rtt    RTT           // of the answers so far, dials included
	wideAt time.Duration // when slots becomes α+β; 0: never, or not known yet
	start  time.Duration
	now    time.Duration
	begun  bool
	result Result[P]
	out    []Action[P]
}

// probe is the timing of a candidate in flight.
type probe struct {
	lateAt time.Duration // when it is late; 0: never
	sentAt time.Duration
	until  time.Duration // when it has failed
}

// New prepares a lookup; it fails only on a Config out of bounds.
func New[P comparable](cfg Config, q Query[P]) (*Lookup[P], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if q.Quorum == nil {
		q.Quorum = Closest()
	}
	return &Lookup[P]{
		cfg: cfg, query: q,
		rng:   *rand.NewPCG(q.Seed, 0x616c6c69756d),
		front: newFrontier(q.Target, cfg.K, q.Self),
	}, nil
}

// Start begins at now with the nearest peers of the routing table, of which the
// first 2k count: where everybody knows everybody the answers name nobody else,
// and those beyond the k nearest make up for the late ones. Later calls do
// nothing.
func (l *Lookup[P]) Start(now time.Duration, table []Peer[P]) []Action[P] {
	if l.begun {
		return nil
	}
	l.begun, l.start, l.now = true, now, now
	l.front.add(table, 2*l.cfg.K, 1)
	if len(l.front.list) == 0 {
		l.out = l.out[:0]
		l.end(NoPeers)
		return l.out
	}
	return l.step(now)
}

// Answer takes in the answer of a peer. That of a peer that is not in flight
// (never asked, failed by time, answered before) does not count.
func (l *Lookup[P]) Answer(now time.Duration, from P, r Reply[P]) []Action[P] {
	l.out = l.out[:0]
	l.pass(now) // an answer after its time is no answer
	c := l.land(from)
	if c == nil {
		return l.advance()
	}
	c.state = answered
	l.rtt.Observe(l.now - c.probe.sentAt)
	l.result.Hops = c.hop
	l.result.Answers++
	l.result.Providers += max(r.Providers, 0)
	l.result.Values += max(r.Values, 0)
	l.front.add(r.Closer, l.cfg.K, c.hop+1)
	if l.query.Quorum(l.result.Progress) {
		l.end(Satisfied)
	}
	return l.advance()
}

// Fail takes in that a peer could not be asked or did not answer.
func (l *Lookup[P]) Fail(now time.Duration, from P) []Action[P] {
	l.out = l.out[:0]
	l.pass(now)
	if c := l.land(from); c != nil {
		c.state = failed
		l.result.Failed++
	}
	return l.advance()
}

// Tick tells the time. It is due at [Lookup.Next], and harmless at any time.
func (l *Lookup[P]) Tick(now time.Duration) []Action[P] { return l.step(now) }

// Next is when Tick is due; false when it never is, before the start and after
// the end.
func (l *Lookup[P]) Next() (time.Duration, bool) {
	if !l.begun || l.result.End != Running {
		return 0, false
	}
	at := l.start + l.cfg.Deadline
	for _, c := range l.flight {
		at = min(at, c.probe.until)
		if c.state == asked && c.probe.lateAt != 0 {
			at = min(at, c.probe.lateAt)
		}
	}
	for _, c := range l.flight {
		if give, ok := l.giveUpAt(c); ok && give > l.now {
			at = min(at, give)
		}
	}
	if l.wideAt > l.now {
		at = min(at, l.wideAt)
	}
	return at, true
}

// Result is what it has come to so far.
func (l *Lookup[P]) Result() Result[P] {
	r := l.result
	r.Closest = l.front.closest()
	if r.End == Running {
		r.Took = l.now - l.start
	}
	return r
}

func (l *Lookup[P]) step(now time.Duration) []Action[P] {
	l.out = l.out[:0]
	l.pass(now)
	return l.advance()
}

// pass lets the time pass: late probes lose their slot, those out of time fail.
func (l *Lookup[P]) pass(now time.Duration) {
	if !l.begun || l.result.End != Running {
		return
	}
	l.now = max(l.now, now)
	if l.now >= l.start+l.cfg.Deadline {
		l.end(TimedOut)
		return
	}
	l.flight = slices.DeleteFunc(l.flight, func(c *candidate[P]) bool {
		if c.state == asked && c.probe.lateAt != 0 && l.now >= c.probe.lateAt {
			c.state = late
			l.onTime--
		}
		if l.now < c.probe.until {
			return false
		}
		if c.state == asked {
			l.onTime--
		}
		c.state = failed
		l.result.Failed++
		l.out = append(l.out, Action[P]{Kind: Cancel, Peer: c.Peer, Hop: c.hop})
		return true
	})
}

// land takes the probe of p out of flight; nil when there is none.
func (l *Lookup[P]) land(p P) *candidate[P] {
	i := slices.IndexFunc(l.flight, func(c *candidate[P]) bool { return c.ID == p })
	if i < 0 {
		return nil
	}
	c := l.flight[i]
	l.flight = slices.Delete(l.flight, i, i+1)
	if c.state == asked {
		l.onTime--
	}
	return c
}

// advance fills the free slots, or ends the lookup.
func (l *Lookup[P]) advance() []Action[P] {
	for l.begun && l.result.End == Running {
		v := l.front.look(l.slots(), l.slots()-l.cfg.Alpha, l.cfg.Hops)
		switch {
		case len(v.ask) > 0 && l.result.Probes == l.cfg.MaxProbes && l.onTime == 0:
			l.end(ProbeExceeded)
		case len(v.ask) > 0 && l.result.Probes == l.cfg.MaxProbes:
			return l.out // for those that are on time
		case len(v.ask) > 0 && l.makeRoom():
			l.send(v.ask[l.rng.Uint64()%uint64(len(v.ask))])
		case len(v.ask) == 0 && v.waiting && v.spare != nil && l.result.Probes < l.cfg.MaxProbes &&
			l.onTime < l.slots() && len(l.flight) < l.cfg.Alpha+l.cfg.Beta:
			// In case one of those still awaited turns out to be late.
			l.send(v.spare)
		case len(v.ask) > 0 || v.waiting:
			return l.out
		case v.late && v.answered < l.cfg.K && !v.tooFar:
			// Everybody known was asked and fewer than k answered: nothing makes
			// up for the late ones, as in a network of a few slow peers.
			return l.out
		case v.tooFar:
			l.end(HopExceeded)
		default:
			l.end(Converged)
		}
	}
	return l.out
}

// slots is how many probes may be on time: α, and β more from when the first
// of the first α would have been late. A lookup that has no answer by then that
// satisfies it is one of the slow ones.
func (l *Lookup[P]) slots() int {
	if l.wideAt != 0 && l.now >= l.wideAt {
		return l.cfg.Alpha + l.cfg.Beta
	}
	return l.cfg.Alpha
}

// makeRoom reports whether there is a place for another probe. Where α + β are
// in flight, the one that has been late the longest is given up if it took twice
// as long as those that answered: without that a few silent peers would
// stop the lookup until their time is over. Where everybody is slow nobody is
// given up.
func (l *Lookup[P]) makeRoom() bool {
	if l.onTime >= l.slots() {
		return false
	}
	if len(l.flight) < l.cfg.Alpha+l.cfg.Beta {
		return true
	}
	i := slices.IndexFunc(l.flight, func(c *candidate[P]) bool {
		at, ok := l.giveUpAt(c)
		return ok && l.now >= at
	})
	if i < 0 {
		return false
	}
	c := l.flight[i]
	l.flight = slices.Delete(l.flight, i, i+1)
	c.state = failed
	l.result.Canceled++
	l.out = append(l.out, Action[P]{Kind: Cancel, Peer: c.Peer, Hop: c.hop})
	return true
}

// giveUpAt is when a late probe may be given up; false when it is not late, or
// nobody has answered yet.
func (l *Lookup[P]) giveUpAt(c *candidate[P]) (time.Duration, bool) {
	return c.probe.sentAt + 2*l.rtt.Mean(), c.state == late && l.rtt.Mean() > 0
}

// send asks c. A probe beyond α takes the place of a late one.
func (l *Lookup[P]) send(c *candidate[P]) {
	a := Action[P]{Kind: Probe, Peer: c.Peer, Hop: c.hop, Until: min(l.now+l.cfg.RPCTimeout, l.start+l.cfg.Deadline)}
	if len(l.flight) >= l.cfg.Alpha {
		a.Kind = Hedge
		l.result.Hedges++
	}
	c.state, c.probe = asked, probe{sentAt: l.now, until: a.Until}
	if delay := l.cfg.HedgeAfter; delay > 0 {
		if l.query.HedgeAfter != nil {
			delay = min(max(l.query.HedgeAfter(c.ID), 1), delay)
		}
		c.probe.lateAt = l.now + delay
		if l.result.Probes < l.cfg.Alpha && (l.wideAt == 0 || c.probe.lateAt < l.wideAt) {
			l.wideAt = c.probe.lateAt
		}
	}
	l.flight = append(l.flight, c)
	l.onTime++
	l.result.Probes++
	l.out = append(l.out, a)
}

// end cancels what is in flight.
func (l *Lookup[P]) end(why End) {
	for _, c := range l.flight {
		c.state = failed
		l.out = append(l.out, Action[P]{Kind: Cancel, Peer: c.Peer, Hop: c.hop})
	}
	l.result.Canceled += len(l.flight)
	l.flight, l.onTime = l.flight[:0], 0
	l.result.End, l.result.Took = why, l.now-l.start
	l.out = append(l.out, Action[P]{Kind: Done})
}
