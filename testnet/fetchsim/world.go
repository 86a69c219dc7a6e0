package fetchsim

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// world is the state of one transfer. Events change it, one at a time.
type world struct {
	o     Options
	rng   *rand.Rand
	now   time.Duration
	m     *schedule.Machine
	queue queue
	last  int // number of the last event made

	all      []*provider                     // in the order in which they become known
	known    int                             // number of providers known so far
	requests map[schedule.RequestID]*request // in flight
	stored   *stored                         // nil until the size is proved

	end    schedule.Kind // Done or GiveUp, once ended
	ended  bool
	asked  int    // requests sent
	lies   int    // answers that failed verification
	extra  int64  // groups that arrived but were stored already
	hedges [4]int // requests by schedule.Hedge
}

// provider is a simulated peer.
type provider struct {
	rtt        time.Duration
	groupTime  time.Duration // time to send one group
	silent     bool
	liar       bool
	freeAt     time.Duration // when it has sent the groups of earlier events
	throughput providers.Throughput
}

// request is a request in flight.
type request struct {
	schedule.Progress
	id     schedule.RequestID
	by     schedule.ProviderID
	run    schedule.Run
	hi     int64         // end of the groups still wanted; Trim lowers it
	notify int64         // group at which the machine wants to run again
	asked  time.Duration // when it was sent
	cut    int64         // the group at which the connection is lost; −1: none
	ended  bool
	fresh  int64 // groups received that were missing
	extra  int64 // groups received that were stored already
}

// stored is the set of groups received.
type stored struct {
	here  []bool // by group
	bytes int64  // received, without repetitions
	size  int64  // of the object
}

// Missing implements schedule.Stored.
func (s *stored) Missing(from, to int64) (lo, hi int64) {
	for lo = from; lo < to && s.here[lo]; lo++ {
	}
	for hi = lo; hi < to && !s.here[hi]; hi++ {
	}
	return lo, hi
}

// Held implements schedule.Stored.
func (s *stored) Held() int64 { return s.bytes }

// put stores a group and reports whether it was missing.
func (s *stored) put(g int64) (fresh bool) {
	if s.here[g] {
		return false
	}
	s.here[g] = true
	s.bytes += min(b3.GroupSize, s.size-g*b3.GroupSize)
	return true
}

// newWorld draws the providers of a transfer and starts its machine.
func newWorld(o Options, rng *rand.Rand) *world {
	w := &world{o: o, rng: rng, requests: map[schedule.RequestID]*request{}}
	for range o.Providers {
		rate := float64(o.Rate) * math.Exp(rng.NormFloat64()*rateSpread)
		kind := rng.Float64()
		w.all = append(w.all, &provider{
			rtt:       max(1, time.Duration(float64(o.RTT)*math.Exp(rng.NormFloat64()*rttSpread))),
			groupTime: max(1, time.Duration(b3.GroupSize/rate*float64(time.Second))),
			silent:    kind < o.Silent,
			liar:      kind >= o.Silent && kind < o.Silent+o.Lies,
		})
	}
	w.m = schedule.New(schedule.Config{Providers: o.AtOnce, Tries: tries, Backoff: func(n int) time.Duration {
		half := 50 * time.Millisecond << min(n, 5)
		return half + time.Duration(rng.Int64N(int64(half)))
	}})
	w.m.Join(1, schedule.Demand{Whole: true})
	return w
}

// run plays the events of the transfer to its end.
func (w *world) run(ctx context.Context) error {
	w.advance()
	for events := 0; !w.ended; events++ {
		if events%1024 == 0 && ctx.Err() != nil {
			return status.Errorf(status.Canceled, "the simulation was stopped: %w", context.Cause(ctx))
		}
		wake, ok := w.m.Wake()
		if (len(w.queue) == 0 && !ok) || events == maxEvents {
			return status.Errorf(status.Internal,
				"the schedule is stuck after %s; please report it with the options", w.now)
		}
		if len(w.queue) == 0 || ok && wake < w.queue[0].at {
			w.now = wake
			w.advance()
			continue
		}
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		if e.do() {
			w.advance()
		}
	}
	return nil
}

// advance gives the machine what a node would know, and carries out its actions.
func (w *world) advance() {
	for _, id := range w.inFlight() {
		w.m.Progress(id, w.requests[id].Progress)
	}
	for i, p := range w.all[:w.known] {
		rate, rtt := p.throughput.Measured()
		w.m.Measured(schedule.ProviderID(i), rate, rtt)
	}
	w.m.Known(w.known)
	for _, a := range slices.Clone(w.m.Advance(w.now)) {
		w.do(a)
	}
}

// inFlight returns the requests in flight in a fixed order, so that the same seed gives
// the same run.
func (w *world) inFlight() []schedule.RequestID {
	ids := make([]schedule.RequestID, 0, len(w.requests))
	for id := range w.requests {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// do carries out an action of the machine.
func (w *world) do(a schedule.Action) {
	switch a.Kind {
	case schedule.Ask:
		w.ask(a)
	case schedule.Cancel:
		r := w.requests[a.Request]
		w.after(0, func() bool { return w.endRequest(r, status.Canceled, false) })
	case schedule.Trim:
		w.requests[a.Request].hi = a.At
	case schedule.Notify:
		w.requests[a.Request].notify = a.At
	case schedule.Find:
		w.find()
	case schedule.Acquire:
		w.after(0, func() bool { w.m.Granted(); return true })
	case schedule.Done, schedule.GiveUp:
		w.ended, w.end = true, a.Kind
	case schedule.Question: // no provider has only a part of the object
		w.after(w.all[a.Provider].rtt, func() bool { w.m.Heard(w.now, a.Provider, schedule.Holding{}); return true })
	case schedule.Release, schedule.Follow, schedule.Fail:
	}
}

// find makes one more provider known at its time, or reports that there is none.
func (w *world) find() {
	if w.known == len(w.all) {
		w.after(0, func() bool { w.m.NoneFound(); return true })
		return
	}
	at := time.Duration(w.known+1) * foundEvery
	w.after(at-w.now, func() bool {
		w.known++
		w.m.Found()
		return true
	})
}

// ask sends a request.
func (w *world) ask(a schedule.Action) {
	w.asked++
	p := w.all[a.Provider]
	r := &request{id: a.Request, by: a.Provider, run: a.Run, hi: a.Run.Hi, asked: w.now, cut: -1}
	r.Next, r.Sent = a.Run.Lo, 1
	w.requests[r.id] = r
	if w.rng.Float64() < w.o.Loss {
		r.cut = a.Run.Lo + w.rng.Int64N(max(a.Run.Hi-a.Run.Lo, 1))
	}
	w.watch(r)
	if p.silent {
		return
	}
	if a.Proof { // the proof of the size precedes the groups and takes no time to send
		w.after(p.rtt, func() bool { return w.first(r, p) })
		return
	}
	w.after(p.rtt, func() bool { w.next(r, p); return false })
}

// first handles the proof of the size. It reports whether the machine must run.
func (w *world) first(r *request, p *provider) (changed bool) {
	if r.ended {
		return false
	}
	if p.liar {
		w.lies++
		return w.endRequest(r, status.Corrupt, false)
	}
	w.next(r, p)
	if w.stored != nil {
		return false
	}
	w.stored = &stored{here: make([]bool, w.o.groups()), size: w.o.Size}
	w.stored.put(w.o.groups() - 1)
	w.m.Sized(w.o.Size, w.stored)
	return true
}

// next sends the next group of a request after the groups that its provider already
// sends.
func (w *world) next(r *request, p *provider) {
	if r.ended {
		return
	}
	p.freeAt = max(p.freeAt, w.now) + p.groupTime
	w.after(p.freeAt-w.now, func() bool { return w.group(r, p) })
}

// group handles the arrival of the next group of a request. It reports whether the
// machine must run.
func (w *world) group(r *request, p *provider) (changed bool) {
	if r.ended {
		return false
	}
	since := max(w.now-r.asked, 1)
	if r.First == 0 {
		r.First = since
		p.throughput.Answered(max(since-p.groupTime, 1))
	}
	switch {
	case p.liar:
		w.lies++
		return w.endRequest(r, status.Corrupt, false)
	case r.Next == r.cut:
		return w.endRequest(r, status.TransportDown, true)
	case r.Next >= min(r.run.Hi, w.o.groups()): // the request was sent before the size was known
		return w.endRequest(r, status.OK, false)
	}
	if w.stored.put(r.Next) {
		r.fresh++
	} else {
		r.extra++
		w.extra++
	}
	r.Next++
	r.Alive = since
	if r.Next >= r.hi || r.Next >= min(r.run.Hi, w.o.groups()) {
		return w.endRequest(r, status.OK, false)
	}
	w.next(r, p)
	return r.Next == r.notify
}

// watch ends a request that delivers no group within the stall timeout.
func (w *world) watch(r *request) {
	alive := r.Alive
	w.after(stallTimeout, func() bool {
		switch {
		case r.ended:
			return false
		case r.Alive == alive:
			return w.endRequest(r, status.Timeout, r.fresh+r.extra > 0)
		}
		w.watch(r)
		return false
	})
}

// endRequest ends a request with an outcome and tells the machine. again says that the same
// provider may be asked again. It reports whether the request was still in flight.
func (w *world) endRequest(r *request, o status.Outcome, again bool) (changed bool) {
	if r.ended {
		return false
	}
	r.ended = true
	delete(w.requests, r.id)
	w.all[r.by].throughput.Delivered(r.fresh+r.extra-1, r.Alive-r.First)
	w.m.Progress(r.id, r.Progress)
	v := w.m.Ended(w.now, r.id, schedule.Result{Fresh: r.fresh, Extra: r.extra, Outcome: o, Again: again})
	w.hedges[v.Hedge]++
	return true
}

// ideal returns how long the object takes from the fastest o.AtOnce honest providers
// that were found, all sending at full rate. It returns 0 if none was found.
func (w *world) ideal() time.Duration {
	var rates []float64
	for _, p := range w.all[:w.known] {
		if !p.silent && !p.liar {
			rates = append(rates, 1/p.groupTime.Seconds())
		}
	}
	slices.SortFunc(rates, func(a, b float64) int { return cmp.Compare(b, a) })
	var all float64
	for _, r := range rates[:min(len(rates), w.o.AtOnce)] {
		all += r
	}
	if all == 0 {
		return 0
	}
	return time.Duration(float64(w.o.groups()) / all * float64(time.Second))
}

// event is a function called at a time. It reports whether the machine must run.
type event struct {
	at  time.Duration
	seq int
	do  func() (changed bool)
}

// after queues an event d from now. A negative d is now.
func (w *world) after(d time.Duration, do func() bool) {
	w.last++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.last, do})
}

// queue is a heap of events, the earliest first. Events of the same time come in the
// order in which they were made.
type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].seq, q[j].seq)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	e := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return e
}
