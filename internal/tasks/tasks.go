// Package tasks lists what a node runs: its services and pools of workers, for docs/reference/tasks.md,
// and counts these and the fetches, lookups and fills that they run.
//
// A [Registry] is made for each node and is part of its Env. Whatever starts a service or a pool lists it there, beside
// the line that starts it, so the list is that of what runs. Invariant: of each kind, the number spawned is the number
// that run plus the number that have ended.
//
// A pool of workers, walked through: its owner calls [Registry.List] with its name, its size and what
// happens when a worker fails. Each worker runs within [Registry.Run], which counts it as spawned, and
// as canceled when it returns because its context has ended. If the node gives up waiting for its
// services, [Registry.Abandon] counts what still runs as aborted.
package tasks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// Kind is the kind of a task, a label of the metrics.
type Kind string

// The kinds of tasks.
const (
	Service Kind = "service" // a part of the node, which node/supervise runs
	Worker  Kind = "worker"  // one of a pool that serves a queue
	Fetch   Kind = "fetch"   // the transfer of an object from peers
	Lookup  Kind = "lookup"  // a search in the DHT
	Fill    Kind = "fill"    // a request to an origin
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Service, Worker, Fetch, Lookup, Fill} }

// Info documents a service or a pool of workers.
type Info struct {
	Name    string
	Kind    Kind   // Service or Worker
	Owner   string // the package that runs it, below the module
	Count   int    // goroutines of a pool, at most; 1 for a service
	Fatal   bool   // its failure stops the node
	Restart string // what happens when it fails, for people
	Doc     string // what it does
	When    string // the nodes that start it; empty: all
	Started bool   // this node has started it
}

// Registry is the list of a node's tasks. NewRegistry makes one. A nil *Registry lists and counts
// nothing. Its methods are safe for concurrent use.
type Registry struct {
	spawned, canceled, aborted *prometheus.CounterVec
	running                    map[Kind]*atomic.Int64 // not changed after NewRegistry

	mu    sync.Mutex // guards infos; lock: leaf
	infos map[string]Info
}

// NewRegistry returns an empty registry, and registers tasks_spawned_total, tasks_canceled_total and
// tasks_aborted_total with reg. A nil reg registers nothing.
func NewRegistry(reg prometheus.Registerer) *Registry {
	counters := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"kind"})
	}
	r := &Registry{
		spawned: counters("tasks_spawned_total", "Tasks started, by kind: service, worker (of a pool), fetch (of an "+
			"object from peers), lookup (in the DHT), fill (from an origin)."),
		canceled: counters("tasks_canceled_total", "Tasks that ended because they were told to: the node stops, or "+
			"nobody waits for them any more."),
		aborted: counters("tasks_aborted_total", "Tasks still running when the drain deadline and the second after it "+
			"had passed."),
		running: map[Kind]*atomic.Int64{}, infos: map[string]Info{},
	}
	for _, k := range Kinds() {
		r.running[k] = &atomic.Int64{}
		for _, c := range []*prometheus.CounterVec{r.spawned, r.canceled, r.aborted} {
			c.WithLabelValues(string(k)) // so that an alert sees the first one
		}
	}
	if reg != nil {
		reg.MustRegister(r.spawned, r.canceled, r.aborted)
	}
	return r
}

// List adds a service or a pool to the list, in place of one of the same name.
func (r *Registry) List(i Info) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.infos[i.Name] = i
}

// Snapshot returns the list, sorted by kind and name.
func (r *Registry) Snapshot() []Info {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var infos []Info
	for _, i := range r.infos {
		infos = append(infos, i)
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return strings.Compare(string(a.Kind)+" "+a.Name, string(b.Kind)+" "+b.Name)
	})
	return infos
}

// Begin counts a task. The caller calls end once, with the task's error, when it has ended.
func (r *Registry) Begin(k Kind) (end func(error)) {
	if r == nil {
		return func(error) {}
	}
	r.spawned.WithLabelValues(string(k)).Inc()
	r.running[k].Add(1)
	return func(err error) {
		r.running[k].Add(-1)
		if errors.Is(err, context.Canceled) || status.Of(err) == status.Canceled || status.Of(err) == status.Draining {
			r.canceled.WithLabelValues(string(k)).Inc()
		}
	}
}

// Run runs a worker, which returns when ctx ends.
func (r *Registry) Run(ctx context.Context, work func(context.Context)) {
	end := r.Begin(Worker)
	defer func() { end(ctx.Err()) }()
	work(ctx)
}

// Abandon counts all tasks that run as aborted. The node calls it when it waits for them no longer.
func (r *Registry) Abandon() {
	if r == nil {
		return
	}
	for k, n := range r.running {
		r.aborted.WithLabelValues(string(k)).Add(float64(max(0, n.Load())))
	}
}
