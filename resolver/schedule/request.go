package schedule

import (
	"cmp"
	"slices"
	"time"

	"allium/protocols/b3"
)

// standing says whether a provider may be asked.
type standing uint8

const (
	good   standing = iota // may be asked
	slow                   // others were faster; may be asked again when those are lost
	unsure                 // lacked a run; may be asked again when it says that it has others
	lost                   // is not asked for this object again
)

// provider is a peer that may have the object.
type provider struct {
	id   ProviderID
	rate float64 // measured bytes per second; 0 when unknown
	rtt  time.Duration

	inflight  int
	hedged    int           // its requests that are hedged by another provider
	fails     int           // requests in a row that delivered nothing
	notBefore time.Duration // it is not asked before this time
	standing  standing
	away      bool // it has failed in a way that may pass

	part    *part // what it has; nil: all, as far as is known
	asked   bool  // Question was not answered yet
	window  int64 // the first group of the window that it was asked for
	noProof bool  // it cannot prove the size
	missing int   // answers in a row that it lacks the run
}

// free reports whether p may be asked at the time now.
func (p *provider) free(now time.Duration) bool { return p.standing == good && now >= p.notBefore }

// become gives p a standing, unless it has a worse one.
func (p *provider) become(s standing) { p.standing = max(p.standing, s) }

// request is a request to one provider for a run of groups.
//
// Invariant: the groups [lo, Next) are stored. Trim lowers hi; the request then
// ends there.
type request struct {
	Progress
	id       RequestID
	p        *provider
	lo, last int64 // the run as it was requested
	hi       int64
	asked    time.Duration
	notify   int64 // the group of the last Notify

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

// sizeFor returns how many groups one request to p asks for. If there are providers with
// parts, these are few: more would have to be cut when another has them, and what is on its way by then came for
// nothing.
func (all requests) sizeFor(p *provider, parts bool) int64 {
	usual, least := int64(firstRequest), int64(minRequest)
	if parts {
		usual, least = minRequest, 1
		if p.fails > 0 {
			usual = 1
		}
	}
	rate := p.rate
	if rate == 0 {
		for _, r := range all {
			if r.p == p {
				rate = max(rate, r.speed())
			}
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

// ask sends p a request for a run.
func (m *Machine) ask(p *provider, run Run) *request {
	m.last++
	r := &request{
		id: m.last, p: p, lo: run.Lo, last: run.Hi, hi: run.Hi,
		asked: m.now, proof: m.stored == nil, Progress: Progress{Next: run.Lo},
	}
	p.inflight++
	m.requests = append(m.requests, r)
	m.emit(Action{Kind: Ask, Request: r.id, Provider: p.id, Run: run, Proof: r.proof})
	return r
}

// cancel ends a request that has not ended.
func (m *Machine) cancel(r *request, why Why) {
	if r.canceled == NotCanceled {
		r.canceled = why
		m.emit(Action{Kind: Cancel, Request: r.id, Why: why})
	}
}

// trim lets a request end before group hi.
func (m *Machine) trim(r *request, hi int64) {
	r.hi = hi
	m.places.freed++
	m.emit(Action{Kind: Trim, Request: r.id, At: hi})
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
	n, took := r.Next-r.lo-1, r.Alive-r.First
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
	all := r.Sent + rtt + timeFor(r.hi-r.lo, rate)
	return r.asked + min(next, all) + lateAfter
}

// timeFor returns how long n groups take at rate bytes per second.
func timeFor(n int64, rate float64) time.Duration {
	return time.Duration(float64(n*b3.GroupSize) / rate * float64(time.Second))
}
