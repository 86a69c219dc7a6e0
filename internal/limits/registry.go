package limits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/linked"
	"allium/protocols/status"
)

// Kind says what a limit counts.
type Kind string

// The kinds of limits.
const (
	KindGate   Kind = "gate"   // requests running
	KindQueue  Kind = "queue"  // items waiting
	KindRate   Kind = "rate"   // events per second
	KindBudget Kind = "budget" // bytes in use
)

// Info is the state of one limit, as `/limits` shows it.
type Info struct {
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	Capacity int64  `json:"capacity"`
	Current  int64  `json:"current"`
	Peak     int64  `json:"peak"`
	Rejected int64  `json:"rejected"`
	Policy   string `json:"policy"` // what happens when it is full, for people
	Path     string `json:"path"`   // producer → consumer

	// Each says what each member of a family belongs to, such as "peer". Then Capacity is that of each member, and
	// Current and Peak are those of the fullest. Members is how many are in use, 0 where that is not counted.
	Each    string `json:"each,omitempty"`
	Members int64  `json:"members,omitempty"`

	// How many requests wait at a gate, and how many may. Of a FairRate at which they wait: how many keys were
	// refused within the last second, and how many have to be for all to count as refused. 0 of other limits.
	Waiting    int64 `json:"-"`
	MaxWaiting int64 `json:"-"`
}

// Spec names a limit and documents it.
type Spec struct {
	Name   string // dotted, package first: "session.ingress"
	Path   string // producer → consumer, for the reference
	Policy string // what happens when it is full, for the reference
	Each   string // what each member of a family belongs to, such as "peer"; empty: it is no family

	// Fullest returns how much of the fullest member of a family is in use; nil: the limit counts that.
	Fullest func() int64
	// Refuse is the outcome of a refusal; zero: status.Busy.
	Refuse status.Outcome
}

// Registry is the list of a node's limits. NewRegistry makes one. A nil *Registry
// can be used too, by tests: its limits work, but nothing lists them.
type Registry struct {
	depth, peak *prometheus.Desc
	dropped     *prometheus.Desc
	busy        *prometheus.Desc
	lagged      *prometheus.Desc
	filled      chan struct{} // bound: 1

	mu     sync.Mutex // guards limits and topics; lock: leaf
	limits []*meter
	topics []*topicLoss
}

// NewRegistry returns an empty registry. It registers five metrics with reg:
// queue_depth, queue_peak, queue_dropped_total for queues, busy_rejections_total
// for all other kinds, and bus_lagged_total for [Events]. A nil reg registers nothing.
func NewRegistry(reg prometheus.Registerer) *Registry {
	r := &Registry{
		depth: prometheus.NewDesc("queue_depth", "How much of each bounded queue, gate and budget is in use.",
			[]string{"queue"}, nil),
		peak: prometheus.NewDesc("queue_peak",
			"The most that was in use of each bounded queue, gate and budget since the start.", []string{"queue"}, nil),
		dropped: prometheus.NewDesc("queue_dropped_total", "Items refused or dropped because a queue was full.",
			[]string{"queue"}, nil),
		busy: prometheus.NewDesc("busy_rejections_total", "Requests refused with busy or rate_limit.",
			[]string{"endpoint"}, nil),
		lagged: prometheus.NewDesc("bus_lagged_total", "Events that a subscriber lost because it lagged behind.",
			[]string{"topic"}, nil),
		filled: make(chan struct{}, 1),
	}
	if reg != nil {
		reg.MustRegister(r)
	}
	return r
}

// Snapshot returns the state of every limit, sorted by name.
func (r *Registry) Snapshot() []Info {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	limits := slices.Clone(r.limits)
	r.mu.Unlock()
	infos := make([]Info, len(limits))
	for i, m := range limits {
		infos[i] = m.info()
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// Queues returns the state of every queue, and of every gate or rate at which requests
// may wait, in no order. It is cheaper than Snapshot, for callers that poll.
func (r *Registry) Queues() []Info {
	r.mu.Lock()
	limits := slices.Clone(r.limits)
	r.mu.Unlock()
	var infos []Info
	for _, m := range limits {
		if m.kind == KindQueue || m.line != nil {
			infos = append(infos, m.info())
		}
	}
	return infos
}

// Filled returns a channel that gets a value when the line of a limit may be full at once, so that
// a caller that polls Queues need not look often while nothing waits. It is for one reader.
func (r *Registry) Filled() <-chan struct{} { return r.filled }

// Describe implements prometheus.Collector.
func (r *Registry) Describe(ch chan<- *prometheus.Desc) {
	ch <- r.depth
	ch <- r.peak
	ch <- r.dropped
	ch <- r.busy
	ch <- r.lagged
}

// Collect implements prometheus.Collector.
func (r *Registry) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	topics := slices.Clone(r.topics)
	r.mu.Unlock()
	for _, t := range topics {
		ch <- prometheus.MustNewConstMetric(r.lagged, prometheus.CounterValue, float64(t.n.Load()), t.name)
	}
	for _, l := range r.Snapshot() {
		rejected := r.busy
		if l.Kind == KindQueue {
			rejected = r.dropped
		}
		ch <- prometheus.MustNewConstMetric(rejected, prometheus.CounterValue, float64(l.Rejected), l.Name)
		if l.Kind != KindRate {
			ch <- prometheus.MustNewConstMetric(r.depth, prometheus.GaugeValue, float64(l.Current), l.Name)
			ch <- prometheus.MustNewConstMetric(r.peak, prometheus.GaugeValue, float64(l.Peak), l.Name)
		}
	}
}

// add makes the meter of a new limit and lists it. depth may be nil, see meter.
func (r *Registry) add(s Spec, kind Kind, capacity int64, depth func() int64) *meter {
	m := newMeter(s, kind, capacity)
	m.depth = depth
	r.list(m)
	return m
}

// newMeter returns a meter. It panics if the capacity is below 1.
func newMeter(s Spec, kind Kind, capacity int64) *meter {
	m := &meter{}
	m.init(&limit{spec: s, kind: kind}, capacity)
	return m
}

func (m *meter) init(l *limit, capacity int64) {
	if capacity < 1 {
		panic(fmt.Sprintf("limits: %s: capacity %d < 1", l.spec.Name, capacity))
	}
	m.limit = l
	m.size.Store(capacity)
}

// list adds a limit to the registry. It panics if another has the same name.
func (r *Registry) list(m *meter) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.limits {
		if l.spec.Name == m.spec.Name {
			panic(fmt.Sprintf("limits: %s is registered twice", m.spec.Name))
		}
	}
	r.limits = append(r.limits, m)
}

// listTopic adds a topic of Events to the metrics. It panics if another has the same
// name.
func (r *Registry) listTopic(t *topicLoss) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.topics, func(o *topicLoss) bool { return o.name == t.name }) {
		panic(fmt.Sprintf("limits: the topic %s is registered twice", t.name))
	}
	r.topics = append(r.topics, t)
}

// meter has the numbers of one limit. Its methods may be called concurrently.
type meter struct {
	*limit
	size    atomic.Int64 // the capacity
	current atomic.Int64
	drain   drainRate

	member bool // of a family
	listed bool // it is in limit.members
	node   linked.Node[meter]
}

// limit is a limit as it is listed. The members of a family share it.
type limit struct {
	spec Spec
	kind Kind

	peak, rejected atomic.Int64

	depth   func() int64 // returns what is in use; nil: meter.current is, as it is for a member of a family
	line    *meterLine   // of a limit at which requests may wait; else nil
	members *members     // of a family that counts them; else nil
}

// meterLine has the numbers of the requests that wait at a limit.
type meterLine struct {
	length func() (waiting, most int64)
	filled chan<- struct{} // of the registry; nil: nobody is told
}

// tell says that the line may be full at once. It does not block.
func (l *meterLine) tell() {
	if l == nil {
		return
	}
	select {
	case l.filled <- struct{}{}:
	default: // the reader has not looked since the last time, or there is none
	}
}

// inUse returns how much of the limit is in use.
func (m *meter) inUse() int64 {
	if m.depth != nil && !m.member {
		return m.depth() //lockcheck:computes it reads the limit's numbers; a limit that refuses under its lock has none
	}
	return m.current.Load()
}

// cap returns the capacity.
func (m *meter) cap() int64 { return m.size.Load() }

func (m *meter) info() Info {
	i := Info{
		Name: m.spec.Name, Kind: m.kind, Capacity: m.cap(), Current: m.inUse(), Peak: m.peak.Load(),
		Rejected: m.rejected.Load(), Policy: m.spec.Policy, Path: m.spec.Path,
		Each: m.spec.Each, Members: m.members.count(),
	}
	if m.line != nil {
		i.Waiting, i.MaxWaiting = m.line.length()
	}
	return i
}

// take adds n to current and raises the peak.
func (m *meter) take(n int64) {
	used := m.current.Add(n)
	if used == n {
		m.begin()
	}
	m.raise(used)
}

// begin notes that the limit is in use now, which it was not before.
func (m *meter) begin() {
	m.drain.begin(clock())
	if m.member {
		m.members.update(m)
	}
}

// raise raises the peak to used if it is lower.
func (m *meter) raise(used int64) {
	for {
		p := m.peak.Load()
		if used <= p || m.peak.CompareAndSwap(p, used) {
			return
		}
	}
}

// give subtracts n from current and counts n as freed. It panics if less was taken, which is a fault of the caller.
func (m *meter) give(n int64) {
	left := m.current.Add(-n)
	if left < 0 {
		panic(fmt.Sprintf("limits: more of %s was given back than taken", m.spec.Name))
	}
	if left == 0 && m.member {
		m.members.update(m)
	}
	m.drain.done(n, clock())
}

// refuse counts a refusal and returns it as Spec.Refuse says. waiting is how much has
// to be freed before the caller is served, in the limit's unit.
func (m *meter) refuse(waiting int64) error {
	return m.reject(cmp.Or(m.spec.Refuse, status.Busy), m.inUse(), m.drain.wait(waiting))
}

// reject counts a refusal and returns it with an outcome, the amount in use and the
// time after which the caller may try again.
func (m *meter) reject(o status.Outcome, used int64, wait time.Duration) error {
	m.rejected.Add(1)
	return status.BusyError(o,
		status.Limit{Name: m.spec.Name, Current: used, Cap: m.cap(), RetryAfter: clampWait(wait)})
}

// The bounds of a retry_after hint (SPEC §3).
const (
	minRetryAfter = 100 * time.Millisecond
	maxRetryAfter = 30 * time.Second
)

func clampWait(d time.Duration) time.Duration { return min(max(d, minRetryAfter), maxRetryAfter) }
