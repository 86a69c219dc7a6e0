package limits

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// Info is one limit as `/limits` shows it.
type Info struct {
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	Capacity int64  `json:"capacity"`
	Current  int64  `json:"current"`
	Peak     int64  `json:"peak"`
	Rejected int64  `json:"rejected"`
	Policy   string `json:"policy"` // what happens when it is full, for people
	Path     string `json:"path"`   // producer → consumer

	// Of a gate with a line: how many wait in it, and how many may.
	Waiting int64 `json:"-"`
	Room    int64 `json:"-"`
}

// Spec names a limit and documents it.
type Spec struct {
	Name   string // dotted, package first: "session.ingress"
	Path   string // producer → consumer, for the reference
	Policy string // what happens when it is full, for the reference
}

// Registry is the list of a node's limits. The zero value is not usable; a nil
// *Registry is: limits made with it work and are listed nowhere (tests).
type Registry struct {
	depth, peak *prometheus.Desc
	dropped     *prometheus.Desc
	busy        *prometheus.Desc

	mu     sync.Mutex
	limits []*meter
}

// NewRegistry returns an empty registry and registers its collectors:
// queue_depth, queue_peak, queue_dropped_total (queues) and
// busy_rejections_total (everything else). A nil reg registers nothing.
func NewRegistry(reg prometheus.Registerer) *Registry {
	r := &Registry{
		depth:   prometheus.NewDesc("queue_depth", "What is in use of each bounded queue, gate and budget.", []string{"queue"}, nil),
		peak:    prometheus.NewDesc("queue_peak", "The most that was ever in use since start.", []string{"queue"}, nil),
		dropped: prometheus.NewDesc("queue_dropped_total", "Items refused or dropped because a queue was full.", []string{"queue"}, nil),
		busy:    prometheus.NewDesc("busy_rejections_total", "Requests refused with busy or rate_limit.", []string{"endpoint"}, nil),
	}
	if reg != nil {
		reg.MustRegister(r)
	}
	return r
}

// Snapshot lists the limits by name.
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

// Lines lists the queues and the gates with a line, in no order. It is cheaper
// than Snapshot, for who looks often.
func (r *Registry) Lines() []Info {
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

// Describe implements prometheus.Collector.
func (r *Registry) Describe(ch chan<- *prometheus.Desc) {
	ch <- r.depth
	ch <- r.peak
	ch <- r.dropped
	ch <- r.busy
}

// Collect implements prometheus.Collector.
func (r *Registry) Collect(ch chan<- prometheus.Metric) {
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

// add makes the meter of a new limit and lists it.
func (r *Registry) add(s Spec, kind Kind, capacity int64, depth func() int64) *meter {
	m := newMeter(s, kind, capacity)
	m.depth = depth
	r.list(m)
	return m
}

// newMeter makes a meter; a capacity below one is a programming error.
func newMeter(s Spec, kind Kind, capacity int64) *meter {
	if capacity < 1 {
		panic(fmt.Sprintf("limits: %s: capacity %d < 1", s.Name, capacity))
	}
	return &meter{spec: s, kind: kind, cap: capacity}
}

// list shows a limit from now on. Two of one name are a programming error.
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

// meter counts for one limit.
type meter struct {
	spec Spec
	kind Kind
	cap  int64

	current, peak, rejected atomic.Int64
	depth                   func() int64          // replaces current where the limit knows better (queues); else nil
	line                    func() (int64, int64) // of a gate: waiting and room; else nil
	drain                   drainRate
	of                      *meter // of the family: counts the refusals and the peak too; else nil
}

// now is how much is in use.
func (m *meter) now() int64 {
	if m.depth != nil {
		return m.depth()
	}
	return m.current.Load()
}

func (m *meter) info() Info {
	i := Info{
		Name: m.spec.Name, Kind: m.kind, Capacity: m.cap, Current: m.now(), Peak: m.peak.Load(),
		Rejected: m.rejected.Load(), Policy: m.spec.Policy, Path: m.spec.Path,
	}
	if m.line != nil {
		i.Waiting, i.Room = m.line()
	}
	return i
}

// take adds n to current and raises the peak.
func (m *meter) take(n int64) { m.raise(m.current.Add(n)) }

// raise lifts the peak to now.
func (m *meter) raise(now int64) {
	if m.of != nil {
		m.of.raise(now)
	}
	for {
		p := m.peak.Load()
		if now <= p || m.peak.CompareAndSwap(p, now) {
			return
		}
	}
}

// give takes n back and feeds the drain rate.
func (m *meter) give(n int64) {
	m.current.Add(-n)
	m.drain.done(n, time.Now())
}

// refuse counts a refusal and returns it as status.Busy. waiting is what stands
// before the caller, in the limit's unit.
func (m *meter) refuse(waiting int64) error {
	m.rejected.Add(1)
	if m.of != nil {
		m.of.rejected.Add(1)
	}
	return status.BusyError(status.Busy, status.Limit{Name: m.spec.Name, Current: m.now(), Cap: m.cap, RetryAfter: clampWait(m.drain.wait(waiting))})
}

// The bounds of a retry_after hint (SPEC §3).
const (
	minRetryAfter = 100 * time.Millisecond
	maxRetryAfter = 30 * time.Second
)

func clampWait(d time.Duration) time.Duration { return min(max(d, minRetryAfter), maxRetryAfter) }

// drainRate estimates how fast a limit frees what it holds: an average over
// windows of 100 ms, the newest weighing a quarter.
type drainRate struct {
	mu     sync.Mutex
	start  time.Time
	n      int64
	perSec float64
}

const drainWindow = 100 * time.Millisecond

func (d *drainRate) done(n int64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.start.IsZero() {
		d.start = now
	}
	d.n += n
	age := now.Sub(d.start)
	if age < drainWindow {
		return
	}
	rate := float64(d.n) / age.Seconds()
	if d.perSec == 0 {
		d.perSec = rate
	} else {
		d.perSec += (rate - d.perSec) / 4
	}
	d.start, d.n = now, 0
}

// wait estimates how long it takes until n more have been freed; 0 when
// nothing is known yet.
func (d *drainRate) wait(n int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.perSec <= 0 {
		return 0
	}
	return time.Duration(float64(n) / d.perSec * float64(time.Second))
}
