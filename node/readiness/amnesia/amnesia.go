// Package amnesia checks that a node with node.amnesia keeps its promise: it writes to
// no file, and its memory is not written to swap.
//
// One node, walked through: the process calls [GuardProcess] first, which turns core
// dumps off and locks the memory. The node calls [New], then [Watch.Settle] as soon as
// its store is open: it is an error or a warning if memory is not locked. While the
// node runs, [Watch.Run] looks every minute at the files that the process has open for
// writing, and counts and logs each.
package amnesia

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/node/config"
	"allium/protocols/status"
)

// lookEvery is the time between two looks at the files that the process has open.
const lookEvery = time.Minute

// Guard is the state of a process that runs one node and nothing else. A node in a
// process that does other things too has a nil Guard: it neither changes nor checks
// the process.
type Guard struct {
	locked error                    // why the memory of the process may be written to swap; nil: it cannot be
	open   func() ([]string, error) // returns the files that are open for writing
}

// GuardProcess turns core dumps off, raises the limit of locked memory as far as the
// system allows, and locks all memory if there is no limit. If the system refuses, the
// node that gets the guard reports it (see Settle).
func GuardProcess() *Guard {
	noCoreDumps()
	return &Guard{locked: lockProcess(), open: filesOpenForWriting}
}

// Watch checks the promise of node.amnesia for one node.
type Watch struct {
	cfg   config.Amnesia
	on    bool
	guard *Guard
	log   *slog.Logger

	violations prometheus.Counter
	locked     prometheus.Gauge

	mu   sync.Mutex      // guards seen; lock: leaf
	seen map[string]bool // files that were logged; at most maxSeen
}

// maxSeen bounds the files that are logged. Further files are only counted.
const maxSeen = 64

// New returns the watch of a node with this configuration. guard may be nil.
func New(cfg config.Config, guard *Guard, log *slog.Logger, reg prometheus.Registerer) *Watch {
	a := &Watch{
		cfg: cfg.Amnesia, on: cfg.Node.Amnesia, guard: guard, log: log, seen: map[string]bool{},
		violations: env.Counter("amnesia_violations_total",
			"Files that a node with amnesia had open for writing, counted once a minute."),
		locked: env.Gauge("amnesia_memory_locked",
			"1 when the node has amnesia and the system never writes its memory to swap."),
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

// Settle checks whether the memory of a node with amnesia is locked. store is the
// reason for which that of the objects is not, or nil. Memory that is not locked is
// status.Amnesia if amnesia.require_lock is set, else a warning.
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
		return status.Errorf(status.Amnesia,
			"memory cannot be locked, so it may be written to swap: %w; %s, or set amnesia.require_lock to false", why,
			lockFix)
	}
	a.log.Warn("memory may be written to swap: the system does not let it be locked", "err", why, "fix", lockFix)
	return nil
}

// lockFix tells the operator how to have memory locked.
const lockFix = "raise the limit on locked memory to unlimited (ulimit -l unlimited, or LimitMEMLOCK=infinity in " +
	"the systemd unit), or turn swap off"

// Mode returns the text that /version shows: "" without amnesia. store is as in
// Settle.
func (a *Watch) Mode(store error) string {
	switch {
	case !a.on:
		return ""
	case store == nil && (a.guard == nil || a.guard.locked == nil):
		return "memory locked"
	}
	return "memory not locked"
}

// Needed reports whether Run has something to check: the node has amnesia, and its
// process runs nothing else.
func (a *Watch) Needed() bool { return a.on && a.guard != nil }

// Look counts the files that are open for writing, and logs each once. It does nothing
// if Needed is false.
func (a *Watch) Look() {
	if !a.Needed() {
		return
	}
	files, err := a.guard.open()
	if err != nil {
		a.log.Warn("the node cannot list its open files, so it cannot check that it writes to none", "err", err)
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

// Run looks every lookEvery until ctx is done.
func (a *Watch) Run(ctx context.Context, ready func()) error {
	tick := time.NewTicker(lookEvery)
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
