// Package amnesia watches that a node with node.amnesia keeps its promise: nothing
// is written to a file, and memory is not written to swap.
package amnesia

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/node/config"
	"allium/protocols/status"
)

// janitorEvery is how often a node with amnesia looks at what it has open.
const janitorEvery = time.Minute

// Guard is what amnesia asks of the whole process, for a process that is one
// node and nothing else. A nil Guard is a process with other things to do: it
// is neither changed nor judged.
type Guard struct {
	locked error // why the process's own memory may be written to swap
	open   func() ([]string, error)
}

// GuardProcess turns core dumps off, lets as much memory be locked as the
// system allows, and locks all of it when nothing limits that. What is refused
// is told by the node that the guard is given to.
func GuardProcess() *Guard {
	noCoreDumps()
	return &Guard{locked: lockProcess(), open: filesOpenForWriting}
}

// Watch is the part of a node that keeps the promise of node.amnesia: that no
// file is open for writing, and that memory is not written to swap where the
// system can be asked not to.
type Watch struct {
	cfg   config.Amnesia
	on    bool
	guard *Guard
	log   *slog.Logger

	violations prometheus.Counter
	locked     prometheus.Gauge

	mu   sync.Mutex
	seen map[string]bool // files that were reported; at most maxSeen
}

// maxSeen bounds the files that are remembered; of more the count alone tells.
const maxSeen = 64

// New returns the watch over a node of that configuration.
func New(cfg config.Config, guard *Guard, log *slog.Logger, reg prometheus.Registerer) *Watch {
	a := &Watch{
		cfg: cfg.Amnesia, on: cfg.Node.Amnesia, guard: guard, log: log, seen: map[string]bool{},
		violations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "amnesia_violations_total", Help: "Files that a node with amnesia was found to have open for writing, counted at every look at them.",
		}),
		locked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "amnesia_memory_locked", Help: "1 when the system promised never to write a node with amnesia's memory to swap.",
		}),
	}
	reg.MustRegister(a.violations, a.locked, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "amnesia_mode", Help: "1 when the node keeps everything in RAM (node.amnesia).",
	}, func() float64 {
		if a.on {
			return 1
		}
		return 0
	}))
	return a
}

// Settle looks at whether memory is locked: store is why the objects' is not.
func (a *Watch) Settle(store error) error {
	if !a.on {
		return nil
	}
	why := store
	if why == nil && a.guard != nil {
		why = a.guard.locked
	}
	if why == nil {
		a.locked.Set(1)
		return nil
	}
	if a.cfg.RequireLock {
		return status.Errorf(status.Amnesia, "memory cannot be locked, so it may be written to swap: %w; %s, or set amnesia.require_lock to false", why, lockFix)
	}
	a.log.Warn("memory may be written to swap: the system does not let it be locked", "err", why, "fix", lockFix)
	return nil
}

// lockFix is what an operator does about memory that is not locked.
const lockFix = "raise the limit on locked memory to unlimited (ulimit -l unlimited, or LimitMEMLOCK=infinity in the systemd unit), or turn swap off"

// Mode is what /version says.
func (a *Watch) Mode(store error) string {
	switch {
	case !a.on:
		return ""
	case store == nil && (a.guard == nil || a.guard.locked == nil):
		return "memory locked"
	}
	return "memory not locked"
}

// Needed reports whether Run has something to look at: the process is this node
// alone, and it has amnesia.
func (a *Watch) Needed() bool { return a.on && a.guard != nil }

// Look counts the files that are open for writing, and logs each once.
func (a *Watch) Look() {
	if !a.Needed() {
		return
	}
	files, err := a.guard.open()
	if err != nil {
		a.log.Warn("what this node has open cannot be seen, so nobody checks that it writes no file", "err", err)
		return
	}
	for _, name := range files {
		a.violations.Inc()
		if a.first(name) {
			a.log.Error("a file is open for writing although node.amnesia is on; please report this", "file", name)
		}
	}
}

// first reports whether name is new, and remembers it.
func (a *Watch) first(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen[name] || len(a.seen) == maxSeen {
		return false
	}
	a.seen[name] = true
	return true
}

// Run looks every minute.
func (a *Watch) Run(ctx context.Context, ready func()) error {
	tick := time.NewTicker(janitorEvery)
	defer tick.Stop()
	ready()
	for {
		select {
		case <-tick.C:
			a.Look()
		case <-ctx.Done():
			return nil
		}
	}
}
