// Package supervise runs a node's services: it starts them in order, restarts
// what returns or panics, and joins them last-first under one deadline
// (SPEC §10, docs/contributing/lifecycle.md).
//
// A service is a function Run(ctx, ready) that calls ready once and returns nil
// only when ctx is done. [Group.Start] runs it on a goroutine that the group
// owns and waits for ready. If it returns or panics before it was told to stop,
// it is run again after a back-off of 100 ms to 2 s with jitter; the sixth
// failure within 60 s, or one failure of a service marked Fatal, ends the group:
// [Group.Failed] is closed and the node stops. [Group.Stop] cancels one service
// after the other, the last started first, and waits for each; a service that
// outlives the deadline by a second is reported, with its name, as abandoned.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// The restart policy of SPEC §2.
const (
	backoffMin    = 100 * time.Millisecond
	backoffMax    = 2 * time.Second
	maxRestarts   = 5
	restartWindow = 60 * time.Second
)

// abortGrace is how long a service may take to return after the drain deadline
// (SPEC §10).
const abortGrace = time.Second

// Service is one thing to run.
type Service struct {
	Name string
	// Run calls ready once when the service can be used, and returns nil only
	// when ctx is done and every goroutine it started has returned.
	Run func(ctx context.Context, ready func()) error
	// Fatal services are not restarted: one failure ends the group. It is for
	// what others hold on to (the store, the host) and for what must not be
	// retried (a store that failed its own integrity check).
	Fatal bool
	// StartTimeout bounds the wait for ready; 0 means 30 s. With Progress it is
	// how long nothing may move.
	StartTimeout time.Duration
	// Progress is a number that grows while the service starts and has much to do,
	// such as a recovery. It may be nil. It is called while Run runs.
	Progress func() int64
}

// Deps is what a group reports to. Both may be nil.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Group owns running services. It is used by one goroutine at a time.
type Group struct {
	log      *slog.Logger
	restarts *prometheus.CounterVec
	spawned  *prometheus.CounterVec
	aborted  *prometheus.CounterVec

	running []*runner

	once   sync.Once
	failed chan struct{}
	err    error // written once before failed is closed
}

// runner is one started service.
type runner struct {
	Service
	cancel context.CancelFunc
	ready  chan struct{}
	done   chan struct{}
}

// New returns an empty group.
func New(deps Deps) *Group {
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Group{
		log:      log,
		failed:   make(chan struct{}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "service_restarts_total", Help: "Services restarted after they returned or panicked."}, []string{"task"}),
		spawned:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tasks_spawned_total", Help: "Services started."}, []string{"kind"}),
		aborted:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tasks_aborted_total", Help: "Services still running when the drain deadline and the second after it had passed."}, []string{"kind"}),
	}
	if deps.Metrics != nil {
		deps.Metrics.MustRegister(g.restarts, g.spawned, g.aborted)
	}
	return g
}

// Start runs a service and waits until it is ready. Values of ctx are kept,
// its cancellation only bounds the wait: a started service ends with Stop. The
// error says which service did not start and why; it is then not running.
func (g *Group) Start(ctx context.Context, s Service) error {
	if s.StartTimeout == 0 {
		s.StartTimeout = 30 * time.Second
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &runner{Service: s, cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	var first error // written before done is closed
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(r.done)
		first = g.run(own, r)
	})
	g.spawned.WithLabelValues(s.Name).Inc()
	cause := g.wait(ctx, r)
	switch {
	case cause == nil:
		g.running = append(g.running, r)
		return nil
	case errors.Is(cause, errEnded):
		cancel()
		if first == nil { // it was ready and failed for good before this goroutine saw the one or the other
			first = g.Err()
		}
		return fmt.Errorf("start %s: %w", s.Name, first)
	}
	cancel()
	wg.Wait()
	return fmt.Errorf("start %s: %w", s.Name, cause)
}

// errEnded says that a service ended before it was ready.
var errEnded = errors.New("ended before it was ready")

// sayAfter is how often the log is told of a start that takes long.
const sayAfter = 5 * time.Second

// wait returns nil when r is ready, and else why it is not. While the progress of
// r moves it goes on.
func (g *Group) wait(ctx context.Context, r *runner) error {
	begun := time.Now()
	tick := time.NewTicker(min(sayAfter, r.StartTimeout))
	defer tick.Stop()
	var last int64
	moved := begun
	for {
		select {
		case <-r.ready:
			return nil
		case <-r.done:
			return errEnded
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			if r.Progress != nil {
				if at := r.Progress(); at != last {
					last, moved = at, now
					g.log.Info("a service is starting and has much to do", "task", r.Name, "done", at, "after", now.Sub(begun).Round(time.Second))
				}
			}
			if now.Sub(moved) >= r.StartTimeout {
				return status.Errorf(status.Timeout, "not ready after %s", now.Sub(begun).Round(time.Second))
			}
		}
	}
}

// run keeps one service running until ctx is done. It returns the error of a
// service that failed before it was ever ready; a later failure that may not
// be retried ends the group instead.
func (g *Group) run(ctx context.Context, r *runner) error {
	ready := sync.OnceFunc(func() { close(r.ready) })
	var failures []time.Time
	for {
		err := Guard(func() error { return r.Run(ctx, ready) })
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				g.log.Warn("service did not stop cleanly", "task", r.Name, "err", err)
			}
			return nil
		}
		if err == nil {
			err = status.Errorf(status.Internal, "%s returned without being told to", r.Name)
		}
		select {
		case <-r.ready:
		default:
			return err
		}
		now := time.Now()
		failures = append(failures, now)
		for now.Sub(failures[0]) > restartWindow {
			failures = failures[1:]
		}
		if r.Fatal || len(failures) > maxRestarts {
			g.fail(fmt.Errorf("%s failed: %w", r.Name, err))
			return nil
		}
		wait := backoff(len(failures))
		g.log.Error("service failed, restarting", "task", r.Name, "err", err, "in", wait)
		g.restarts.WithLabelValues(r.Name).Inc()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// backoff is the wait before the n-th restart in a row, ± 25 %.
func backoff(n int) time.Duration {
	d := min(backoffMin<<(n-1), backoffMax)
	return d - d/4 + rand.N(d/2)
}

// Guard runs f and turns a panic into an internal error with its stack, so that
// what goes wrong on a goroutine of its own ends that piece of work and not the
// node (SPEC §10).
func Guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(status.Internal, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

func (g *Group) fail(err error) {
	g.once.Do(func() {
		g.err = err
		close(g.failed)
	})
}

// Failed is closed when a service failed for good; Err then says which.
func (g *Group) Failed() <-chan struct{} { return g.failed }

// Err is the failure that closed Failed, or nil.
func (g *Group) Err() error {
	select {
	case <-g.failed:
		return g.err
	default:
		return nil
	}
}

// Stop cancels the services one by one, the last started first, and waits for
// each. When ctx ends before that is done, the rest has one more second: all are
// cancelled at once but for those that others hold on to (Fatal), which still
// end after these, unless that takes three quarters of it. Whoever is then still
// running is returned by name and counted in tasks_aborted_total. Stop twice is
// Stop once.
func (g *Group) Stop(ctx context.Context) (abandoned []string) {
	deadline := ctx.Done()
	for i := len(g.running) - 1; i >= 0 && ctx.Err() == nil; i-- {
		g.running[i].cancel()
		select {
		case <-g.running[i].done:
		case <-deadline:
		}
	}
	for _, r := range g.running {
		if !r.Fatal {
			r.cancel()
		}
	}
	turns, grace := time.NewTimer(abortGrace*3/4), time.NewTimer(abortGrace)
	defer turns.Stop()
	defer grace.Stop()
	late, expired := false, false
	for i := len(g.running) - 1; i >= 0; i-- {
		r := g.running[i]
		r.cancel()
		if !late {
			select {
			case <-r.done:
			case <-turns.C:
				late = true
				for _, rest := range g.running[:i] {
					rest.cancel()
				}
			}
		}
		if late && !expired {
			select {
			case <-r.done:
			case <-grace.C:
				expired = true
			}
		}
		select {
		case <-r.done:
		default:
			g.aborted.WithLabelValues(r.Name).Inc()
			abandoned = append(abandoned, r.Name)
		}
	}
	g.running = nil
	return abandoned
}
