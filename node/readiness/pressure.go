package readiness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/status"
)

// Pressure closes the node to writes, then to reads, while one of its queues, or
// the line before one of its gates, is about to overflow, so that who chooses among nodes chooses another before
// this one has to refuse (SPEC §10). It looks at every queue once in
// pressureEvery and moves each by the table of transitions.
type Pressure struct {
	limits *limits.Registry

	mu     sync.Mutex // guards queues; what a gate reads is what the last look saw
	queues map[string]*queuePressure
}

// pressureEvery is the time between two looks at the queues.
const pressureEvery = 100 * time.Millisecond

// flow is what a queue lets the node take.
type flow uint8

// The states of a queue, each worse than the one before.
const (
	flowing   flow = iota // reads and writes
	writesOff             // reads
	allOff                // nothing
)

// fill is a condition: a queue is at least, or less than, so many percent full.
type fill struct {
	atLeast, below int // below 0: no bound
}

func (f fill) holds(percent int) bool {
	return percent >= f.atLeast && (f.below == 0 || percent < f.below)
}

// transition takes a queue from one state to another when a condition has held
// for a time.
type transition struct {
	from flow
	when fill
	held time.Duration
	to   flow
}

// transitions is the table of SPEC §10. Between 50 and 80 % a queue stays what
// it is.
var transitions = []transition{
	{flowing, fill{atLeast: 80}, time.Second, writesOff},
	{writesOff, fill{atLeast: 95}, time.Second, allOff},
	{writesOff, fill{below: 50}, 500 * time.Millisecond, flowing},
	{allOff, fill{below: 50}, 500 * time.Millisecond, flowing},
}

// leniency is how far a queue may shut the node at most.
type leniency struct {
	atMost flow
	why    string
}

// lenient are the queues and lines that say less about whether the node can
// take more. All others may shut it to everything.
var lenient = map[string]leniency{
	"announce.publish": {flowing, "adding a large directory fills it; what does not fit is found through the DHT"},
	"dht.announce":     {flowing, "adding a large directory fills it; what does not fit is announced by the sweep"},
	"dht.dials":        {flowing, "dials of strangers, which time out; who waits too long is passed over"},
	"dht.route":        {flowing, "what lookups learn of peers; the deepest of many buckets counts, and what does not fit is learnt again"},
	"gossip.ingress":   {flowing, "hints from anybody, of which any may be lost"},
	"gossip.publish":   {flowing, "hints of this node, of which any may be lost"},
	"repair":           {flowing, "the damage that one look finds fills it; the rest is found again within ten minutes"},
	"resolver.trees":   {flowing, "a few long downloads of directories fill its short line"},
	"store.puts":       {writesOff, "who puts waits here, and reads pass by"},
	"store.ingests":    {writesOff, "downloads wait here, and what is in the store is read past them"},
}

// queuePressure is one queue, or the line before a gate, and the state it is in.
type queuePressure struct {
	name     string
	waiting  int64
	capacity int64
	state    flow
	since    []time.Time // of each transition's condition: since when it holds; zero: it does not
}

// look takes what the queue holds now into account.
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
	for i, t := range transitions { // in the order of the table: from better to worse in one look
		if q.state == t.from && !q.since[i].IsZero() && now.Sub(q.since[i]) >= t.held {
			q.state = t.to
		}
	}
}

// shuts is what the queue keeps the node from.
func (q *queuePressure) shuts() flow {
	if l, ok := lenient[q.name]; ok {
		return min(q.state, l.atMost)
	}
	return q.state
}

// reading is what a gate says of the queue: how many places are free, and how
// many must be.
func (q *queuePressure) reading() Reading {
	need := q.capacity/2 + 1
	return Reading{
		Have: min(q.capacity-q.waiting, need-1), // it may have room again, but not for long enough
		Need: need,
		Fix: fmt.Sprintf("%s has been nearly full, %d of %d now: ask another node until this one has caught up; docs/running/alerts.md says what fills it",
			q.name, q.waiting, q.capacity),
		RetryAfter: time.Second,
	}
}

// NewPressure returns the pressure of the queues and gates that the registry
// lists. reg may be nil.
func NewPressure(registry *limits.Registry, reg prometheus.Registerer) *Pressure {
	p := &Pressure{limits: registry, queues: map[string]*queuePressure{}}
	if reg != nil {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pressure_state", Help: "What nearly full queues keep the node from: 0 nothing, 1 writes, 2 reads too.",
		}, func() float64 { return float64(p.worst()) }))
	}
	return p
}

// Run looks at the queues until ctx ends.
func (p *Pressure) Run(ctx context.Context, ready func()) error {
	ready()
	every := time.NewTicker(pressureEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-every.C:
			p.look(p.limits.Lines(), now)
		}
	}
}

// look moves every queue and line.
func (p *Pressure) look(registry []limits.Info, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, info := range registry {
		waiting, capacity := info.Waiting, info.Room
		if info.Kind == limits.KindQueue {
			waiting, capacity = info.Current, info.Capacity
		}
		if capacity == 0 {
			continue
		}
		q := p.queues[info.Name]
		if q == nil {
			q = &queuePressure{name: info.Name, capacity: capacity, since: make([]time.Time, len(transitions))}
			p.queues[info.Name] = q
		}
		q.look(waiting, now)
	}
}

// worst is what the queues keep the node from.
func (p *Pressure) worst() (f flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		f = max(f, q.shuts())
	}
	return f
}

// gate is the reading of the fullest queue that shuts so much.
func (p *Pressure) gate(least flow) Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst *queuePressure
	for _, q := range p.queues {
		if q.shuts() >= least && (worst == nil || q.waiting*worst.capacity > worst.waiting*q.capacity) {
			worst = q
		}
	}
	if worst == nil {
		return YesNo(true, "")
	}
	return worst.reading()
}

// Writes is the gate that shuts first.
func (p *Pressure) Writes() Reading { return p.gate(writesOff) }

// Reads is the gate that shuts after it.
func (p *Pressure) Reads() Reading { return p.gate(allOff) }

// Refusal returns the error of who wants to write while that gate is shut.
func (p *Pressure) Refusal() error {
	r := p.Writes()
	if r.Ready() {
		return nil
	}
	return status.BusyError(status.Busy, status.Limit{Name: "pressure_writes", Current: r.Need - r.Have, Cap: r.Need, RetryAfter: r.RetryAfter})
}
