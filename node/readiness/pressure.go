package readiness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Pressure makes the node not ready for writes, and then for reads, while one of its
// queues is nearly full. A queue here is also the line of requests that wait at a
// gate of package limits. So clients that choose among nodes choose another before
// this one has to refuse requests (SPEC §10). Pressure looks at every queue once in
// idleEvery, or in pressureEvery while one of them matters or the registry says that one
// may be full, and changes the queue's state by the table transitions.
type Pressure struct {
	limits *limits.Registry

	mu     sync.Mutex // guards queues, which have the numbers of the last look; lock: leaf
	queues map[string]*queuePressure
}

// The time between two looks at the queues.
const (
	pressureEvery = 100 * time.Millisecond // while a queue is half full, or keeps the node from something
	idleEvery     = time.Second            // otherwise: an idle node should sleep
)

// admits is the set of requests that the state of a queue lets the node admit.
type admits uint8

// The states of a queue, each worse than the one before.
const (
	admitsAll   admits = iota // reads and writes
	admitsReads               // reads only
	admitsNone                // neither
)

// fill is a range of how full a queue is, in percent.
type fill struct {
	atLeast, below int // below 0 means no upper bound
}

// holds reports whether percent is in the range.
func (f fill) holds(percent int) bool {
	return percent >= f.atLeast && (f.below == 0 || percent < f.below)
}

// transition changes the state of a queue that has been as full as when says for a
// time.
type transition struct {
	from admits
	when fill
	last time.Duration // how long the queue must have been so full
	to   admits
}

// transitions is the table of SPEC §10. A queue that is between 50 and 80 % full
// stays in its state.
var transitions = []transition{
	{admitsAll, fill{atLeast: 80}, time.Second, admitsReads},
	{admitsReads, fill{atLeast: 95}, time.Second, admitsNone},
	{admitsReads, fill{below: 50}, 500 * time.Millisecond, admitsAll},
	{admitsNone, fill{below: 50}, 500 * time.Millisecond, admitsAll},
}

// leniency is the worst state that a queue may put the node in, and the reason.
type leniency struct {
	worst admits
	why   string
}

// lenient lists the queues that may be full although the node can take more
// requests. Every other queue may make the node admit nothing.
var lenient = map[string]leniency{
	"announce.publish": {admitsAll, "adding a large directory fills it; the DHT finds objects without a hint"},
	"dht.announce":     {admitsAll, "adding a large directory fills it; the sweep announces what does not fit"},
	"dht.dials":        {admitsAll, "dials of unknown peers often time out; a lookup skips a dial that waits too long"},
	"dht.route": {admitsAll,
		"lookups fill it with peers they learn; the deepest of many buckets counts, and lost updates are learnt again"},
	"edge.work":      {admitsAll, "only fills wait here, and the gate fills says so; stored objects are served"},
	"events.queue":   {admitsAll, "a reader that stands still fills it, and loses its oldest events"},
	"gossip.ingress": {admitsAll, "hints of peers, any of which may be lost"},
	"gossip.publish": {admitsAll, "hints of this node, any of which may be lost"},
	"repair":         {admitsAll, "one scan of damaged objects fills it; the rest is found again within ten minutes"},
	"resolver.trees": {admitsAll, "a few long downloads of directories fill its short line"},
	"store.puts":     {admitsReads, "only puts wait here"},
	"store.ingests":  {admitsReads, "only downloads wait here; objects in the store are read without it"},
}

// queuePressure is a queue and its state.
type queuePressure struct {
	name     string
	waiting  int64
	capacity int64
	state    admits
	since    []time.Time // for each transition: since when its fill holds; zero if it does not
}

// look updates the state for a queue in which waiting items wait now.
func (q *queuePressure) look(waiting int64, now time.Time) {
	q.waiting = waiting
	percent := int(100 * waiting / q.capacity)
	for i, t := range transitions {
		switch {
		case !t.when.holds(percent):
			q.since[i] = time.Time{}
		case q.since[i].IsZero():
			q.since[i] = now
		}
	}
	for i, t := range transitions { // in this order, one look may take a queue through two states
		if q.state == t.from && !q.since[i].IsZero() && now.Sub(q.since[i]) >= t.last {
			q.state = t.to
		}
	}
}

// effect returns what the node admits because of the queue.
func (q *queuePressure) effect() admits {
	if l, ok := lenient[q.name]; ok {
		return min(q.state, l.worst)
	}
	return q.state
}

// reading returns the reading of a gate that is shut because of the queue: how many
// places of the queue are free, and how many must be.
func (q *queuePressure) reading() Reading {
	need := q.capacity/2 + 1
	return Reading{
		Have: min(q.capacity-q.waiting, need-1), // enough may be free again, but not for long enough
		Need: need,
		Fix: fmt.Sprintf("%s has been nearly full, %d of %d now: ask another node until this one has caught up; "+
			"docs/running/alerts.md#the-node-is-under-pressure says what fills it",
			q.name, q.waiting, q.capacity),
		RetryAfter: time.Second,
	}
}

// NewPressure returns the pressure of all queues that registry lists. It registers
// the metric pressure_state with reg, which may be nil.
func NewPressure(registry *limits.Registry, reg prometheus.Registerer) *Pressure {
	p := &Pressure{limits: registry, queues: map[string]*queuePressure{}}
	env.MustRegister(reg, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pressure_state",
		Help: "What nearly full queues keep the node from: 0 nothing, 1 writes, 2 reads too.",
	}, func() float64 { return float64(p.worst()) }))
	return p
}

// Run looks at the queues until ctx ends.
func (p *Pressure) Run(ctx context.Context, ready func()) error {
	ready()
	every := time.NewTimer(jitter.Gather(idleEvery))
	defer every.Stop()
	filled := p.limits.Filled()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-filled:
			filled = nil // until the next look, which must not be put off
			every.Reset(pressureEvery)
		case now := <-every.C:
			filled = p.limits.Filled()
			if p.look(p.limits.Queues(), now) {
				every.Reset(pressureEvery)
			} else {
				every.Reset(jitter.Gather(idleEvery))
			}
		}
	}
}

// look moves every queue and line, and reports whether it should look again soon.
func (p *Pressure) look(registry []limits.Info, now time.Time) (soon bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, info := range registry {
		waiting, capacity := info.Waiting, info.MaxWaiting
		if info.Kind == limits.KindQueue {
			waiting, capacity = info.Current, info.Capacity
		}
		if capacity == 0 {
			continue
		}
		q := p.queues[info.Name]
		if q == nil {
			q = &queuePressure{name: info.Name, since: make([]time.Time, len(transitions))}
			p.queues[info.Name] = q
		}
		q.capacity = capacity // a reload may have changed it
		q.look(waiting, now)
		soon = soon || q.state != admitsAll || 2*waiting >= capacity
	}
	return soon
}

// worst returns what the node admits because of all queues.
func (p *Pressure) worst() (a admits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		a = max(a, q.effect())
	}
	return a
}

// gate returns the reading of the fullest queue whose effect is least or worse. The
// reading is ready if there is no such queue.
func (p *Pressure) gate(least admits) Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst *queuePressure
	for _, q := range p.queues {
		if q.effect() >= least && (worst == nil || q.waiting*worst.capacity > worst.waiting*q.capacity) {
			worst = q
		}
	}
	if worst == nil {
		return YesNo(true, "")
	}
	return worst.reading()
}

// Writes is the check of the gate pressure_writes, which shuts first.
func (p *Pressure) Writes() Reading { return p.gate(admitsReads) }

// Reads is the check of the gate pressure_reads, which shuts when a queue stays full.
func (p *Pressure) Reads() Reading { return p.gate(admitsNone) }

// Refusal returns status.Busy while the gate pressure_writes is shut, else nil.
// Writes call it before they begin.
func (p *Pressure) Refusal() error {
	r := p.Writes()
	if r.Ready() {
		return nil
	}
	return status.BusyError(status.Busy,
		status.Limit{Name: "pressure_writes", Current: r.Need - r.Have, Cap: r.Need, RetryAfter: r.RetryAfter})
}
