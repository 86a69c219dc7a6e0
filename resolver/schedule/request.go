package schedule

import (
	"slices"
	"time"

	"allium/protocols/b3"
)

// standing says whether a provider may be asked.
type standing uint8

const (
	good   standing = iota // it may
	slow                   // others were faster: asked again when those are lost
	unsure                 // it did not have a run: not before it says that it has others
	lost                   // not for this object again
)

// provider is a peer that may have the object.
type provider struct {
	id   ProviderID
	rate float64 // measured, in bytes per second; 0: unknown
	rtt  time.Duration

	inflight int
	doubted  int           // requests that were given to another as well
	fails    int           // requests in a row that brought nothing
	rest     time.Duration // it is left alone until then
	standing standing

	partial bool  // it says that it has a part of the object
	noProof bool  // it cannot prove the size
	lacks   []Run // what it did not have
	missing int   // answers in a row that it does not have the run
	limit   int64 // groups asked for at once; 0: as its pace allows
	fine    bool  // it is asked for single groups where it did not have minRequest
}

// free reports whether p may be asked.
func (p *provider) free(now time.Duration) bool { return p.standing == good && now >= p.rest }

// become leaves p out; a worse standing stays.
func (p *provider) become(s standing) { p.standing = max(p.standing, s) }

// lacking reports whether p did not have a part of r.
func (p *provider) lacking(r Run) bool { return slices.ContainsFunc(p.lacks, r.overlaps) }

// request is a run of groups, asked of one provider.
//
// Invariant: the groups [lo, Next) are here. hi may be lowered; the request then
// ends there.
type request struct {
	Progress
	id       RequestID
	p        *provider
	lo, last int64 // as it was asked
	hi       int64
	asked    time.Duration
	notify   int64 // the group that Notify named last

	proof    bool // the proof of the size comes first
	hedge    bool // it doubles another request
	doubted  bool // it is doubled by another
	twin     bool // either of these
	canceled Why
}

// ask makes a request of p.
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
	m.emit(Action{Kind: Trim, Request: r.id, At: hi})
}

// rest is the groups that are still to come.
func (r *request) rest() Run { return Run{r.Next, r.hi} }

// left is how many those are.
func (r *request) left() int64 { return max(0, r.hi-r.Next) }

// speed is the measured rate of the provider, or that of the request so far.
func (r *request) speed() float64 {
	if r.p.rate > 0 {
		return r.p.rate
	}
	n := r.Next - r.lo - 1
	if n < measurable {
		return 0
	}
	return float64(n*b3.GroupSize) / max(r.Alive-r.First, time.Millisecond).Seconds()
}

// ends is the time the rest should take; unmeasured when the pace is unknown.
func (r *request) ends() time.Duration {
	rate := r.speed()
	if rate == 0 {
		return unmeasured
	}
	d := timeFor(r.left(), rate)
	if r.First == 0 {
		d += r.p.rtt
	}
	return d
}

// due is the time at which the request is late, unless something comes before.
func (r *request) due() time.Duration {
	rate, rtt := r.p.rate, r.p.rtt
	if rate == 0 || r.Sent == 0 {
		return r.asked + max(r.Sent, r.Alive) + unmeasured
	}
	next := max(r.Sent, r.Alive) + rtt + timeFor(1, rate)
	all := r.Sent + rtt + timeFor(r.hi-r.lo, rate)
	return r.asked + min(next, all) + lateAfter
}

// timeFor is how long n groups take at rate bytes per second.
func timeFor(n int64, rate float64) time.Duration {
	return time.Duration(float64(n*b3.GroupSize) / rate * float64(time.Second))
}
