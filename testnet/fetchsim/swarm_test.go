package fetchsim

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// swarm is nodes that fetch one object from the first of them, and from each other, in virtual time. All are
// connected. Each sends one group at a time, to those who ask it by turns.
type swarm struct {
	groupTime, rtt time.Duration
	size           int64
	rng            *rand.Rand
	now            time.Duration
	queue          queue
	last           int
	nodes          []*member
	down           bool // the first node answers nobody any more
}

// member is a node of a swarm.
type member struct {
	*swarm
	number     int
	m          *schedule.Machine // nil: it has the object
	stored     *stored           // nil until the size is proved
	known      []*member         // candidates
	found      int               // providers among them
	throughput []providers.Throughput
	requests   map[schedule.RequestID]*request
	sending    []sending // requests of others, in the order in which they are served next
	busy       bool
	sent       int64 // groups
	done       time.Duration
	end        schedule.Kind
	ended      bool
}

// sending is a request on the side that answers it.
type sending struct {
	to    *member
	r     *request
	proof bool // the last group is due first
	next  int64
}

func newSwarm(nodes int, size int64, rate float64, rtt time.Duration) *swarm {
	s := &swarm{
		groupTime: time.Duration(b3.GroupSize / rate * float64(time.Second)), rtt: rtt, size: size,
		rng: rand.New(rand.NewPCG(1, 2)),
	}
	for i := range nodes {
		s.nodes = append(s.nodes, &member{
			swarm: s, number: i, throughput: make([]providers.Throughput, nodes),
			requests: map[schedule.RequestID]*request{},
		})
	}
	origin := s.nodes[0]
	origin.stored = s.empty()
	for g := range b3.Groups(size) {
		origin.stored.put(g)
	}
	return s
}

func (s *swarm) empty() *stored { return &stored{here: make([]bool, b3.Groups(s.size)), size: s.size} }

func (s *swarm) after(d time.Duration, do func()) {
	s.last++
	heap.Push(&s.queue, event{at: s.now + max(d, 0), seq: s.last, do: func() bool { do(); return false }})
}

// fetch begins a transfer at each node but the first, and plays until all have ended or the limit.
func (s *swarm) fetch(t testing.TB, limit time.Duration) {
	t.Helper()
	for _, n := range s.nodes[1:] {
		n.m = schedule.New(schedule.Config{
			Providers: 4, Tries: tries, Seed: uint64(n.number),
			Backoff: func(i int) time.Duration { return 75 * time.Millisecond << min(i, 5) },
			Pause:   func(int) time.Duration { return time.Second },
			Look:    func(i int) time.Duration { return 500 * time.Millisecond << min(i, 6) },
		})
		n.m.Join(1, schedule.Demand{Whole: true})
		n.known = []*member{s.nodes[0]}
		n.advance()
	}
	for slices.ContainsFunc(s.nodes[1:], func(n *member) bool { return !n.ended }) {
		next := s.next()
		switch {
		case next == nil && len(s.queue) == 0:
			t.Fatalf("stuck at %v", s.now)
		case next != nil:
			at, _ := next.m.Wake()
			s.now = max(s.now, at)
			next.advance()
		default:
			e := heap.Pop(&s.queue).(event)
			s.now = e.at
			e.do()
		}
		if s.now > limit {
			t.Fatalf("not done after %v", s.now)
		}
	}
}

// next returns the node that is to be woken before the next event, if there is one.
func (s *swarm) next() (first *member) {
	at := limitless
	if len(s.queue) > 0 {
		at = s.queue[0].at
	}
	for _, n := range s.nodes[1:] {
		if wake, ok := n.m.Wake(); ok && !n.ended && wake < at {
			first, at = n, wake
		}
	}
	return first
}

const limitless = time.Duration(1 << 62)

func (n *member) advance() {
	if n.ended {
		return
	}
	for id, r := range n.requests {
		n.m.Progress(id, r.Progress)
	}
	for i := range n.found {
		rate, rtt := n.throughput[i].Measured()
		n.m.Measured(schedule.ProviderID(i), rate, rtt)
	}
	n.m.Known(len(n.known))
	for _, a := range slices.Clone(n.m.Advance(n.now)) {
		n.do(a)
	}
}

// later lets something happen to the machine.
func (n *member) later(d time.Duration, do func()) {
	n.after(d, func() {
		if !n.ended {
			do()
			n.advance()
		}
	})
}

func (n *member) do(a schedule.Action) {
	switch a.Kind {
	case schedule.Ask:
		r := &request{id: a.Request, by: a.Provider, run: a.Run, hi: a.Run.Hi, asked: n.now}
		r.Next, r.Sent, r.notify = a.Run.Lo, 1, -1
		n.requests[a.Request] = r
		from := n.known[a.Provider]
		n.after(n.rtt/2, func() { from.serve(n, r, a.Proof) })
	case schedule.Cancel:
		r := n.requests[a.Request]
		n.later(0, func() { n.over(r, status.Canceled) })
	case schedule.Trim:
		n.requests[a.Request].hi = a.At
	case schedule.Notify:
		n.requests[a.Request].notify = a.At
	case schedule.Find:
		n.later(0, func() {
			if n.found == len(n.known) {
				n.m.NoneFound()
				return
			}
			n.found++
			n.m.Found()
		})
	case schedule.Look:
		n.later(n.rtt, func() {
			for _, i := range n.rng.Perm(len(n.nodes)) {
				o := n.nodes[i]
				if o != n && o.stored != nil && o.stored.bytes > 0 && !slices.Contains(n.known, o) {
					n.known = append(n.known, o)
				}
			}
			n.m.Looked(n.now)
		})
	case schedule.Question:
		n.later(n.rtt, func() { n.m.Heard(n.now, a.Provider, n.known[a.Provider].holding(a.At)) })
	case schedule.Acquire:
		n.later(0, n.m.Granted)
	case schedule.Done, schedule.GiveUp:
		n.ended, n.end, n.done = true, a.Kind, n.now
	case schedule.Release, schedule.Follow, schedule.Fail, schedule.Renew:
	}
}

// holding answers a Question.
func (n *member) holding(from int64) (h schedule.Holding) {
	switch {
	case n.silent():
		h.Failed = true
	case n.stored == nil || n.stored.bytes == 0:
	case n.stored.bytes == n.size:
		h.Presence = b3.Complete
	default:
		h.Presence = b3.Partial
		h.Groups = make([]byte, (b3.Groups(n.size)+7)/8)
		for g, here := range n.stored.here[from:] {
			if here {
				h.Groups[g/8] |= 1 << (g % 8)
			}
		}
	}
	return h
}

func (n *member) silent() bool { return n.number == 0 && n.down }

// serve begins to answer a request of another node.
func (n *member) serve(to *member, r *request, proof bool) {
	total := b3.Groups(n.size)
	r.hi, r.run.Hi = min(r.hi, total), min(r.run.Hi, total)
	lo, hi := int64(0), int64(0)
	if n.stored != nil {
		lo, hi = n.stored.Missing(r.run.Lo, r.run.Hi)
	}
	switch {
	case n.silent():
		to.later(n.rtt/2, func() { to.over(r, status.TransportDown) })
	case n.stored == nil, lo < hi, proof && !n.stored.here[total-1]:
		to.later(n.rtt/2, func() { to.over(r, status.NotFound) })
	default:
		n.sending = append(n.sending, sending{to, r, proof, r.run.Lo})
		n.send()
	}
}

// send sends the next group, if the link is free.
func (n *member) send() {
	if n.busy || len(n.sending) == 0 {
		return
	}
	q := n.sending[0]
	n.sending = n.sending[1:]
	if n.silent() {
		q.to.later(n.rtt/2, func() { q.to.over(q.r, status.TransportDown) })
	}
	if q.r.ended || q.to.ended || n.silent() {
		n.send()
		return
	}
	g := q.next
	if q.proof {
		g, q.proof = b3.Groups(n.size)-1, false
	} else {
		q.next++
	}
	last := q.next >= q.r.run.Hi
	n.busy = true
	n.after(n.groupTime, func() {
		n.busy = false
		n.sent++
		q.to.after(n.rtt/2, func() { q.to.got(q.r, g, last) })
		if !last {
			n.sending = append(n.sending, q)
		}
		n.send()
	})
}

// got takes a group.
func (n *member) got(r *request, g int64, last bool) {
	if r.ended || n.ended {
		return
	}
	look := n.stored == nil
	if look {
		n.stored = n.empty()
		n.m.Sized(n.size, n.stored)
	}
	if r.First == 0 {
		r.First = n.now - r.asked
		n.throughput[r.by].Answered(r.First)
	}
	r.Alive = n.now - r.asked
	if n.stored.put(g) {
		r.fresh++
	} else {
		r.extra++
	}
	if g == r.Next {
		r.Next++
	}
	if last || r.Next >= r.hi {
		n.m.Progress(r.id, r.Progress)
		n.over(r, status.OK)
		look = true
	}
	if look || r.Next == r.notify {
		n.advance()
	}
}

// over ends a request.
func (n *member) over(r *request, o status.Outcome) {
	if r.ended {
		return
	}
	r.ended = true
	delete(n.requests, r.id)
	n.throughput[r.by].Delivered(r.fresh+r.extra-1, r.Alive-r.First)
	n.m.Ended(n.now, r.id, schedule.Result{Fresh: r.fresh, Extra: r.extra, Outcome: o, Again: o != status.NotFound})
	if o == status.TransportDown {
		n.m.Away(r.by)
	}
}

// lastDone returns when the last node had the object.
func (s *swarm) lastDone() (at time.Duration) {
	for _, n := range s.nodes[1:] {
		at = max(at, n.done)
	}
	return at
}

// figures fetches with one node, and with many at once. It returns what the first node sent to the many, divided by the
// size, and how much longer the last of them took than one alone.
func figures(t testing.TB, nodes int, size int64) (origin, longer float64) {
	t.Helper()
	const rate, rtt = 4 << 20, 20 * time.Millisecond
	alone, all := newSwarm(2, size, rate, rtt), newSwarm(nodes+1, size, rate, rtt)
	alone.fetch(t, time.Hour)
	all.fetch(t, time.Hour)
	for _, n := range all.nodes[1:] {
		if n.end != schedule.Done || n.stored.bytes != size {
			t.Errorf("node %d has %d bytes", n.number, n.stored.bytes)
		}
	}
	origin = float64(all.nodes[0].sent*b3.GroupSize) / float64(size)
	return origin, all.lastDone().Seconds() / alone.lastDone().Seconds()
}

// TestSwarm: what many nodes fetch at once they get from each other. The first node sends not much more than one
// object, and the last is done not much later than one that fetches alone.
func TestSwarm(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{4, 11} {
		origin, longer := figures(t, nodes, 64<<20)
		t.Logf("%d nodes: origin ÷ size %.2f, last ÷ alone %.2f", nodes, origin, longer)
		if most := 1.5; origin > most || longer > most {
			t.Errorf("%d nodes: the first sent %.2f times the object, and the last took %.2f times as long as one alone",
				nodes, origin, longer)
		}
	}
}

// BenchmarkSwarm is 50 nodes that fetch 1 GiB at once, each sending at most 4 MiB/s.
func BenchmarkSwarm(b *testing.B) {
	for b.Loop() {
		origin, longer := figures(b, 50, 1<<30)
		b.ReportMetric(origin, "origin/size")
		b.ReportMetric(longer, "last/alone")
	}
}

// TestSwarmWithoutOrigin: when the first node goes away in the midst, the others end, each with all that any of them
// has got.
func TestSwarmWithoutOrigin(t *testing.T) {
	t.Parallel()
	s := newSwarm(6, 64<<20, 4<<20, 20*time.Millisecond)
	s.after(8*time.Second, func() { s.down = true })
	s.fetch(t, 5*time.Minute)
	union := s.empty()
	for _, n := range s.nodes[1:] {
		for g, here := range n.stored.here {
			if here {
				union.put(int64(g))
			}
		}
	}
	if union.bytes == s.size || union.bytes < s.size/4 {
		t.Fatalf("%d bytes had arrived", union.bytes)
	}
	for _, n := range s.nodes[1:] {
		if n.end != schedule.GiveUp || n.stored.bytes < union.bytes*9/10 {
			t.Errorf("node %d has %d of %d bytes, and ended with %v", n.number, n.stored.bytes, union.bytes, n.end)
		}
	}
}
