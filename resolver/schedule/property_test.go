package schedule

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// manners are how a simulated provider behaves.
type manners uint8

const (
	honest manners = iota
	silent         // never answers
	liar           // its first group is false
	flaky          // cuts answers short
	partly         // has a part of the object
	absent         // has nothing
	kinds
)

// peer is a simulated provider.
type peer struct {
	manners manners
	rtt     time.Duration
	each    time.Duration // a group takes
	cut     int64         // groups after which a flaky one ends
	has     func(g int64) bool
	busy    time.Duration // until then with earlier requests
}

// happening is something that comes at a time.
type happening struct {
	at time.Duration
	do func()
}

// sim runs a transfer in virtual time.
type sim struct {
	*harness
	peers  []*peer
	groups int64
	queue  []happening
}

func (s *sim) after(d time.Duration, do func()) {
	at := s.now + max(d, 1)
	i, _ := slices.BinarySearchFunc(s.queue, at, func(h happening, at time.Duration) int {
		return cmp.Compare(h.at, at+1) // behind those of the same time
	})
	s.queue = slices.Insert(s.queue, i, happening{at, do})
}

// run plays until the machine ends or nobody waits any more, and returns the
// number of steps.
func (s *sim) run(most int) (steps int) {
	s.act(0)
	for ; !s.ended && len(s.demands) > 0; steps++ {
		if steps > most {
			s.t.Fatalf("no end after %d steps, at %v: %d in flight", steps, s.now, len(s.m.requests))
		}
		wake, ok := s.m.Wake()
		switch {
		case len(s.queue) > 0 && (!ok || s.queue[0].at <= wake):
			h := s.queue[0]
			s.queue = s.queue[1:]
			s.now = h.at
			h.do()
			s.act(s.now)
		case ok:
			s.act(wake)
		default:
			s.t.Fatalf("it is stuck at %v: nothing in flight, nothing to wait for", s.now)
		}
	}
	return steps
}

// settle plays until nothing is in flight or asked for.
func (s *sim) settle() {
	for len(s.m.requests) > 0 || s.finding || s.m.acquiring || s.stored == nil {
		h := s.queue[0]
		s.queue = s.queue[1:]
		s.now = h.at
		h.do()
		s.act(s.now)
	}
}

func (s *sim) act(now time.Duration) {
	for _, a := range slices.Clone(s.advance(now)) {
		switch a.Kind {
		case Ask:
			s.ask(a)
		case Cancel:
			s.after(time.Millisecond, func() { s.over(a.Request, status.Canceled, false) })
		case Find:
			s.after(time.Millisecond, func() {
				if s.providers == len(s.peers) {
					s.none()
				} else {
					s.found()
				}
			})
		case Question:
			p := s.peers[a.Provider]
			s.after(p.rtt, func() {
				h := Holding{Failed: p.manners == silent, Presence: b3.Absent}
				if p.manners == partly {
					h = holding(p.has, s.groups)
				}
				s.heard(a.Provider, h)
			})
		case Acquire:
			s.after(time.Millisecond, func() {
				s.permitted = true
				s.m.Granted()
			})
		case Fail:
			s.leave(a.Waiter)
		default:
		}
	}
}

// over ends a request that has not ended.
func (s *sim) over(id RequestID, o status.Outcome, again bool) {
	if s.requests[id] != nil {
		s.finish(id, o, again)
	}
}

func (s *sim) ask(a Action) {
	p, id := s.peers[a.Provider], a.Request
	s.sent(id)
	s.after(5*time.Second, func() { s.stall(id) })
	start := max(s.now+p.rtt, p.busy) - s.now
	switch p.manners {
	case silent:
		return
	case absent:
		s.after(p.rtt, func() { s.over(id, status.NotFound, false) })
		return
	case liar:
		s.after(start, func() { s.over(id, status.Corrupt, false) })
		return
	case partly:
		for g := a.Run.Lo; g < min(a.Run.Hi, s.groups); g++ {
			if !p.has(g) || a.Proof && !p.has(s.groups-1) {
				s.after(p.rtt, func() { s.over(id, status.NotFound, false) })
				return
			}
		}
	}
	p.busy = s.now + start + time.Duration(a.Run.Hi-a.Run.Lo)*p.each
	s.after(start, func() { s.deliver(id, p) })
}

func (s *sim) stall(id RequestID) {
	if r := s.requests[id]; r != nil && s.now-r.asked-r.progress.Alive >= 4*time.Second {
		s.over(id, status.Timeout, false)
	}
}

// deliver brings the next group of a request.
func (s *sim) deliver(id RequestID, p *peer) {
	r := s.requests[id]
	if r == nil || r.canceled {
		return
	}
	if s.stored == nil {
		s.size(s.groups)
		s.stored.put(s.groups - 1)
		s.after(0, func() { s.deliver(id, p) })
		return
	}
	if p.manners == flaky && r.next-r.run.Lo >= p.cut {
		s.over(id, status.TransportDown, true)
		return
	}
	hi := min(r.run.Hi, s.groups)
	if r.next < hi {
		s.got(id, r.next+1)
		s.m.Measured(r.by, float64(b3.GroupSize)/p.each.Seconds(), p.rtt)
	}
	if r.next >= hi || r.next >= r.hi {
		s.over(id, status.OK, false)
		return
	}
	s.after(p.each, func() { s.deliver(id, p) })
}

// readThrough lets a reader take a group as soon as it is here.
func (s *sim) readThrough(id WaiterID, lo, hi int64, pause time.Duration) {
	g := max(lo, s.pos[id])
	switch {
	case s.failed[id]:
		return
	case g >= hi:
		s.leave(id)
		return
	case s.stored != nil && s.stored.here[g]:
		s.read(id, g+1)
		s.after(pause, func() { s.readThrough(id, lo, hi, pause) })
	default:
		s.after(5*time.Millisecond, func() { s.readThrough(id, lo, hi, pause) })
	}
}

func drawPeers(t *rapid.T, groups int64) []*peer {
	var peers []*peer
	for range rapid.IntRange(0, 8).Draw(t, "peers") {
		p := &peer{
			manners: manners(rapid.IntRange(0, int(kinds)-1).Draw(t, "manners")),
			rtt:     time.Duration(rapid.IntRange(1, 400).Draw(t, "rtt ms")) * time.Millisecond,
			each:    time.Duration(rapid.IntRange(100, 50_000).Draw(t, "group µs")) * time.Microsecond,
			cut:     rapid.Int64Range(0, 20).Draw(t, "cut"),
		}
		from := rapid.Int64Range(0, groups).Draw(t, "part from")
		to := rapid.Int64Range(from, groups).Draw(t, "part to")
		p.has = func(g int64) bool { return g >= from && g < to || g == groups-1 }
		peers = append(peers, p)
	}
	return peers
}

// The invariants of the package, checked by the harness after every step, and the
// end: one honest provider is enough.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.Int64Range(1, 400).Draw(t, "groups")
		s := &sim{
			harness: newHarness(t, Config{Providers: rapid.IntRange(1, 6).Draw(t, "providers"),
				Tries: rapid.IntRange(1, 4).Draw(t, "tries")}),
			peers: drawPeers(t, groups), groups: groups,
		}
		if rapid.Bool().Draw(t, "told late") {
			n := 0
			s.late = func() bool { n++; return n%3 > 0 }
		}
		whole := rapid.Bool().Draw(t, "whole")
		if whole {
			s.join(0, Demand{Whole: true})
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "readers") {
			id := WaiterID(i + 1)
			lo := rapid.Int64Range(0, groups-1).Draw(t, "from")
			hi := rapid.Int64Range(lo+1, groups).Draw(t, "to")
			ahead := rapid.Int64Range(LeastAhead, 100).Draw(t, "ahead")
			s.join(id, Demand{Start: lo * b3.GroupSize, End: hi * b3.GroupSize, Ahead: ahead})
			pause := time.Duration(rapid.IntRange(0, 20).Draw(t, "pause ms")) * time.Millisecond
			s.after(time.Duration(i)*10*time.Millisecond, func() { s.readThrough(id, lo, hi, pause) })
		}
		if len(s.demands) == 0 {
			return
		}
		s.run(200_000)
		good := slices.ContainsFunc(s.peers, func(p *peer) bool { return p.manners == honest })
		if good && (len(s.failed) > 0 || s.ended && s.end == GiveUp) {
			t.Fatalf("it failed: %v, %v", s.failed, s.end)
		}
		if whole && good && s.end != Done {
			t.Fatalf("it ended with %v", s.end)
		}
	})
}

// The same events at the same times give the same actions.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	var first []time.Duration
	for range 3 {
		s := &sim{harness: newHarness(t, Config{Providers: 4, Tries: 3}), groups: 500}
		for i := range 8 {
			s.peers = append(s.peers, &peer{
				manners: manners(i) % kinds, rtt: time.Duration(i+1) * 7 * time.Millisecond,
				each: time.Duration(i+1) * time.Millisecond,
				cut:  5, has: func(g int64) bool { return g%100 < 50 || g == 499 },
			})
		}
		s.join(0, Demand{Whole: true})
		steps := s.run(100_000)
		first = append(first, s.now, time.Duration(steps), time.Duration(s.last))
	}
	if !slices.Equal(first[:3], first[3:6]) || !slices.Equal(first[:3], first[6:]) {
		t.Errorf("three runs: %v", first)
	}
}
