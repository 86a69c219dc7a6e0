package schedule

import (
	"cmp"
	"slices"
	"time"

	"allium/protocols/b3"
)

// Progress is the state of a running request. Its times count from Ask; 0 means that
// it has not happened.
type Progress struct {
	Next  int64         // the group that arrives next
	Sent  time.Duration // when the request went out
	First time.Duration // when the first item arrived
	Alive time.Duration // when the latest group arrived
}

// request is a request to one provider for a run of groups.
//
// Invariant: the groups [run.Lo, Next) are stored. Trim lowers hi; the request then
// ends there.
type request struct {
	Progress
	id     RequestID
	p      *provider
	run    Run // as it was requested
	hi     int64
	asked  time.Duration
	notify int64 // the group of the last Notify

	proof    bool // the proof of the size comes first
	hedge    bool // this request hedges another one
	hedged   bool // another request hedges this one
	shared   bool // hedge or hedged
	canceled Why
}

// requests are those in flight.
type requests []*request

// runs returns what is requested, sorted by start.
func (all requests) runs() []Run {
	taken := make([]Run, 0, len(all))
	for _, r := range all {
		taken = append(taken, r.rest())
	}
	slices.SortFunc(taken, func(a, b Run) int { return cmp.Compare(a.Lo, b.Lo) })
	return taken
}

// hedgeable returns the first of the requests for group g that p can hedge, or nil.
func (all requests) hedgeable(g int64, p *provider) *request {
	for _, r := range all {
		if r.Next <= g && g < r.hi && r.hedgeableBy(p) {
			return r
		}
	}
	return nil
}

// sizeFor returns how many groups one request to p asks for. If there are providers with
// parts, these are few: more would have to be cut when another has them, and what is on its way by then came for
// nothing.
func (m *Machine) sizeFor(p *provider) int64 {
	usual, least := int64(firstRequest), int64(minRequest)
	if m.common.parts > 0 {
		usual, least = minRequest, 1
		if p.fails > 0 {
			usual = 1
		}
	}
	rate := p.rate
	for _, r := range m.requests {
		if r.p == p {
			rate = max(rate, r.speed())
		}
	}
	switch {
	case rate == 0 && p.rtt >= requestTime: // it is far, busy or slow
		return min(usual, minRequest)
	case rate == 0:
		return usual
	}
	return max(int64(min(rate*requestTime.Seconds()/b3.GroupSize, maxRequest)), least)
}

// Progress sets how far a request has come.
func (o *object) Progress(id RequestID, p Progress) {
	for _, r := range o.requests {
		if r.id == id {
			r.Progress = p
		}
	}
}

// ask sends p a request for a run.
func (o *object) ask(p *provider, run Run) *request {
	o.last++
	r := &request{
		id: o.last, p: p, run: run, hi: run.Hi,
		asked: o.now, proof: o.stored == nil, Progress: Progress{Next: run.Lo},
	}
	p.inflight++
	o.requests = append(o.requests, r)
	o.emit(Action{Kind: Ask, Request: r.id, Provider: p.id, Run: run, Proof: r.proof})
	return r
}

// cancel ends a request that has not ended.
func (o *object) cancel(r *request, why Why) {
	if r.canceled == NotCanceled {
		r.canceled = why
		o.emit(Action{Kind: Cancel, Request: r.id, Why: why})
	}
}

// trim lets a request end before group hi.
func (o *object) trim(r *request, hi int64) {
	r.hi = hi
	o.freed++
	o.emit(Action{Kind: Trim, Request: r.id, At: hi})
}

// alone reports whether r is not canceled, and no other request is or was for the same groups.
func (r *request) alone() bool { return !r.shared && r.canceled == NotCanceled }

// hedgeableBy reports whether p may hedge r. A request is hedged once.
func (r *request) hedgeableBy(p *provider) bool {
	return r.p != p && r.alone() && p.has(r.rest())
}

// rest returns the groups that have not arrived.
func (r *request) rest() Run { return Run{r.Next, r.hi} }

// left returns how many groups have not arrived.
func (r *request) left() int64 { return max(0, r.hi-r.Next) }

// speed returns the measured rate of the provider in bytes per second, or that of
// the request so far. It is 0 when neither is known.
func (r *request) speed() float64 {
	if r.p.rate > 0 {
		return r.p.rate
	}
	n, took := r.Next-r.run.Lo-1, r.Alive-r.First
	if n < 1 || n < measurable && took < requestTime {
		return 0
	}
	return float64(n*b3.GroupSize) / max(took, time.Millisecond).Seconds()
}

// ends returns how long the rest should take, or hedgeAfter when the provider's
// rate is unknown.
func (r *request) ends(hedgeAfter time.Duration) time.Duration {
	rate := r.speed()
	if rate == 0 {
		return hedgeAfter
	}
	d := timeFor(r.left(), rate)
	if r.First == 0 {
		d += r.p.rtt
	}
	return d
}

// due returns when the request is late, unless another group arrives first.
func (r *request) due(hedgeAfter time.Duration) time.Duration {
	rate, rtt := r.p.rate, r.p.rtt
	if rate == 0 || r.Sent == 0 {
		return r.asked + max(r.Sent, r.Alive) + hedgeAfter
	}
	next := max(r.Sent, r.Alive) + rtt + timeFor(1, rate)
	all := r.Sent + rtt + timeFor(r.hi-r.run.Lo, rate)
	return r.asked + min(next, all) + lateAfter
}

// timeFor returns how long n groups take at rate bytes per second.
func timeFor(n int64, rate float64) time.Duration {
	return time.Duration(float64(n*b3.GroupSize) / rate * float64(time.Second))
}
