package kad

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Lookup is one lookup. Times are durations since an instant that the caller
// chooses; a time earlier than the previous one counts as the previous one. A Lookup
// is not safe for concurrent use. Each method returns its actions in order; the
// slice is valid until the next call.
//
// Invariants: inFlight holds the candidates in state asked and late, in the order
// of their probes. onTime counts those in state asked. onTime ≤ slots(), and
// len(inFlight) ≤ α+β. Once result.End is set, inFlight is empty and no method
// returns an action.
type Lookup[P comparable] struct {
	cfg      Config
	query    Query[P]
	rng      rand.PCG
	frontier frontier[P]
	inFlight []*candidate[P]
	onTime   int
	rtt      RTT           // of all responses so far; includes dials
	widenAt  time.Duration // when slots rises to α+β; 0: never, or not yet known
	clock
	result  Result[P]
	actions []Action[P]
}

// clock is the time of a Lookup, as its caller told it last.
type clock struct {
	start   time.Duration
	now     time.Duration
	started bool
}

// probe holds the times of one candidate in flight.
type probe struct {
	lateAt time.Duration // when it becomes late; 0: never
	sentAt time.Duration
	until  time.Duration // when it fails
	hedge  bool          // sent beside α others
}

// New prepares a lookup. It returns an error only if cfg is out of bounds.
func New[P comparable](cfg Config, q Query[P]) (*Lookup[P], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if q.Quorum == nil {
		q.Quorum = Closest()
	}
	return &Lookup[P]{
		cfg: cfg, query: q,
		rng:      *rand.NewPCG(q.Seed, 0x616c6c69756d),
		frontier: newFrontier(q.Target, cfg.K, q.Self),
	}, nil
}

// Start begins the lookup at now with the nearest peers of the routing table. It
// uses the first 2k: in a network where every peer knows every other, responses name
// no new peers, and those beyond the k nearest replace late ones. Later calls do
// nothing.
func (l *Lookup[P]) Start(now time.Duration, table []Peer[P]) []Action[P] {
	if l.started {
		return nil
	}
	l.started, l.start, l.now = true, now, now
	l.frontier.add(table, 2*l.cfg.K, 1)
	if len(l.frontier.list) == 0 {
		l.actions = l.actions[:0]
		l.finish(NoPeers)
		return l.actions
	}
	return l.step(now)
}

// Answer processes the response of a peer. It ignores the response of a peer that is
// not in flight: never asked, already failed, or already answered.
func (l *Lookup[P]) Answer(now time.Duration, from P, r Reply[P]) []Action[P] {
	l.actions = l.actions[:0]
	l.advanceTime(now) // a response after the RPC timeout does not count
	c := l.removeInFlight(from)
	if c == nil {
		return l.fillSlots()
	}
	c.state = answered
	l.rtt.Observe(l.now - c.probe.sentAt)
	l.result.Hops = c.hop
	l.result.Answers++
	l.result.Providers += max(r.Providers, 0)
	l.result.Values += max(r.Values, 0)
	n := l.cfg.K
	if len(r.Closer) > 0 && r.Closer[0].Key == l.query.Target {
		n++
	}
	l.frontier.add(r.Closer, n, c.hop+1)
	if l.query.Quorum(l.result.Progress) {
		l.finish(Satisfied)
	}
	return l.fillSlots()
}

// Fail records that a request to a peer failed.
func (l *Lookup[P]) Fail(now time.Duration, from P) []Action[P] {
	l.actions = l.actions[:0]
	l.advanceTime(now)
	if c := l.removeInFlight(from); c != nil {
		c.state = failed
		l.result.Failed++
	}
	return l.fillSlots()
}

// Tick advances the time to now. It is due at [Lookup.Next] and allowed at any time.
func (l *Lookup[P]) Tick(now time.Duration) []Action[P] { return l.step(now) }

// Next returns the time at which Tick is due. It returns false before the start and
// after the end.
func (l *Lookup[P]) Next() (time.Duration, bool) {
	if !l.started || l.result.End != Running {
		return 0, false
	}
	at := l.start + l.cfg.Deadline
	for _, c := range l.inFlight {
		at = min(at, c.probe.until)
		if c.state == asked && c.probe.lateAt != 0 {
			at = min(at, c.probe.lateAt)
		}
	}
	for _, c := range l.inFlight {
		if give, ok := l.giveUpAt(c); ok && give > l.now {
			at = min(at, give)
		}
	}
	if l.widenAt > l.now {
		at = min(at, l.widenAt)
	}
	return at, true
}

// Result returns the result so far.
func (l *Lookup[P]) Result() Result[P] {
	r := l.result
	r.Closest = l.frontier.closest()
	if r.End == Running {
		r.Took = l.now - l.start
	}
	return r
}

func (l *Lookup[P]) step(now time.Duration) []Action[P] {
	l.actions = l.actions[:0]
	l.advanceTime(now)
	return l.fillSlots()
}

// advanceTime marks late probes and fails probes past their timeout.
func (l *Lookup[P]) advanceTime(now time.Duration) {
	if !l.started || l.result.End != Running {
		return
	}
	l.now = max(l.now, now)
	if l.now >= l.start+l.cfg.Deadline {
		l.finish(TimedOut)
		return
	}
	l.inFlight = slices.DeleteFunc(l.inFlight, func(c *candidate[P]) bool {
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
		l.actions = append(l.actions, Action[P]{Kind: Cancel, Peer: c.Peer, Hop: c.hop})
		return true
	})
}

// removeInFlight takes the probe of p out of inFlight. It returns nil if there is none.
func (l *Lookup[P]) removeInFlight(p P) *candidate[P] {
	i := slices.IndexFunc(l.inFlight, func(c *candidate[P]) bool { return c.ID == p })
	if i < 0 {
		return nil
	}
	c := l.inFlight[i]
	l.inFlight = slices.Delete(l.inFlight, i, i+1)
	if c.state == asked {
		l.onTime--
	}
	return c
}

// fillSlots sends probes while slots are free, or ends the lookup.
func (l *Lookup[P]) fillSlots() []Action[P] {
	for l.started && l.result.End == Running {
		v := l.frontier.survey(l.slots(), l.slots()-l.cfg.Alpha, l.cfg.Hops)
		switch {
		case len(v.toAsk) > 0 && l.result.Probes == l.cfg.MaxProbes && l.onTime == 0:
			l.finish(ProbeExceeded)
		case len(v.toAsk) > 0 && l.result.Probes == l.cfg.MaxProbes:
			return l.actions // wait for the probes that are not late
		case len(v.toAsk) > 0 && l.freeSlot():
			l.send(v.toAsk[l.rng.Uint64()%uint64(len(v.toAsk))])
		case len(v.toAsk) == 0 && v.waiting && v.spare != nil && l.result.Probes < l.cfg.MaxProbes &&
			l.onTime < l.slots() && len(l.inFlight) < l.cfg.Alpha+l.cfg.Beta:
			// Ask a spare now, in case one of the awaited peers becomes late.
			l.send(v.spare)
		case len(v.toAsk) > 0 || v.waiting:
			return l.actions
		case v.skippedLate && v.answered < l.cfg.K && !v.tooFar:
			// Every known peer was asked and fewer than k answered, as in a
			// network of a few slow peers. Wait for the late ones.
			return l.actions
		case v.tooFar:
			l.finish(HopExceeded)
		default:
			l.finish(Converged)
		}
	}
	return l.actions
}

// slots returns how many probes that are not late may be in flight: α at first, α+β
// from the time at which the first of the first α probes is due to be late.
func (l *Lookup[P]) slots() int {
	if l.widenAt != 0 && l.now >= l.widenAt {
		return l.cfg.Alpha + l.cfg.Beta
	}
	return l.cfg.Alpha
}

// freeSlot reports whether another probe may be sent. If α + β probes are in flight,
// it cancels the probe that has been late the longest, if that probe may be given up.
// This keeps a few silent peers from blocking the lookup until they time out.
func (l *Lookup[P]) freeSlot() bool {
	if l.onTime >= l.slots() {
		return false
	}
	if len(l.inFlight) < l.cfg.Alpha+l.cfg.Beta {
		return true
	}
	i := slices.IndexFunc(l.inFlight, func(c *candidate[P]) bool {
		at, ok := l.giveUpAt(c)
		return ok && l.now >= at
	})
	if i < 0 {
		return false
	}
	c := l.inFlight[i]
	l.inFlight = slices.Delete(l.inFlight, i, i+1)
	c.state = failed
	l.result.Canceled++
	l.actions = append(l.actions, Action[P]{Kind: Cancel, Peer: c.Peer, Hop: c.hop})
	return true
}

// giveUpAt returns the time from which a late probe may be canceled: when it has taken
// twice the average of all responses, which a slow network raises. Before the first
// response only a hedge may be canceled, after twice its hedge delay: if all peers are
// slow, the first α answer, and if they are silent, the β places go on to other peers.
// It returns false if the probe may not be canceled.
func (l *Lookup[P]) giveUpAt(c *candidate[P]) (time.Duration, bool) {
	switch {
	case c.state != late:
		return 0, false
	case l.rtt.Mean() > 0:
		return c.probe.sentAt + 2*l.rtt.Mean(), true
	}
	return 2*c.probe.lateAt - c.probe.sentAt, c.probe.hedge
}

// send probes c. A probe beyond α in flight is a hedge for a late one.
func (l *Lookup[P]) send(c *candidate[P]) {
	a := Action[P]{Kind: Probe, Peer: c.Peer, Hop: c.hop, Until: min(l.now+l.cfg.RPCTimeout, l.start+l.cfg.Deadline)}
	if len(l.inFlight) >= l.cfg.Alpha {
		a.Kind = Hedge
		l.result.Hedges++
	}
	c.state, c.probe = asked, probe{sentAt: l.now, until: a.Until, hedge: a.Kind == Hedge}
	if delay := l.cfg.HedgeAfter; delay > 0 {
		if l.query.HedgeAfter != nil {
			delay = min(max(l.query.HedgeAfter(c.ID), 1), delay)
		}
		c.probe.lateAt = l.now + delay
		if l.result.Probes < l.cfg.Alpha && (l.widenAt == 0 || c.probe.lateAt < l.widenAt) {
			l.widenAt = c.probe.lateAt
		}
	}
	l.inFlight = append(l.inFlight, c)
	l.onTime++
	l.result.Probes++
	l.actions = append(l.actions, a)
}

// finish ends the lookup and cancels the probes in flight.
func (l *Lookup[P]) finish(why End) {
	for _, c := range l.inFlight {
		c.state = failed
		l.actions = append(l.actions, Action[P]{Kind: Cancel, Peer: c.Peer, Hop: c.hop})
	}
	l.result.Canceled += len(l.inFlight)
	l.inFlight, l.onTime = l.inFlight[:0], 0
	l.result.End, l.result.Took = why, l.now-l.start
	l.actions = append(l.actions, Action[P]{Kind: Done})
}
