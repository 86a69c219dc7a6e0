// Package supervise runs the services of a node: it starts them in order, restarts
// those that return or panic, and stops them in the reverse order under one deadline
// (SPEC §10, docs/contributing/lifecycle.md).
//
// Invariants: the group owns every goroutine that runs a service; each service has its own context; a service starts
// only after the services of the call before are ready.
//
// One service, walked through: [Group.Start] runs Service.Run on a goroutine and
// waits for ready. If Run returns or panics before it was told to stop, the group
// runs it again after a back-off of 100 ms to 2 s with jitter. The sixth failure
// within 60 s ends the group, and so does one failure of a service that is Fatal:
// [Group.Failed] is closed, and the node stops. [Group.Stop] cancels the services, the
// last first, and waits for each. It returns the names of the services that still run
// one second after the deadline. A service that panics while it stops keeps no other from
// its end; the group has failed then too, so that the node does not end as if all were well.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/guard"
	"allium/internal/tasks"
	"allium/protocols/status"
)

// The restart policy of SPEC §2.
const (
	backoffMin    = 100 * time.Millisecond
	backoffMax    = 2 * time.Second
	maxRestarts   = 5
	restartWindow = 60 * time.Second
)

// abortGrace is the time that a service may take to return after the drain deadline
// (SPEC §10).
const abortGrace = time.Second

// Service is a part of the node that runs until it is told to stop.
type Service struct {
	Name string
	Doc  string // what it does, for docs/reference/tasks.md
	// Owner is the package that it runs, below the module. If it is empty, it is that of Run.
	Owner string
	When  string // the nodes that start it, for docs/reference/tasks.md; empty: all
	// Run calls ready once, as soon as the service can be used. It returns nil only
	// when ctx is done and every goroutine it started has returned.
	Run Run
	// Fatal means that one failure ends the group, without a restart. It is for
	// services that others use (the store, the host), and for failures that must not be
	// retried (a store that failed its own integrity check).
	Fatal bool
	// StartTimeout bounds the wait for ready; 0 means 30 s. If there is Progress, it
	// bounds the time in which Progress does not change.
	StartTimeout time.Duration
	// Progress returns a number that grows while the service starts, for one that may
	// have much to do, such as a recovery. It is called concurrently with Run. It may be
	// nil.
	Progress func() int64
}

// Deps holds the dependencies of a [Group]. Each field may be nil.
type Deps struct {
	env.Env

	Wrap func(name string, run Run) Run // replaces the run of each service; a test makes services fail with it
}

// Run is the main function of a service, see [Service].
type Run = func(ctx context.Context, ready func()) error

// Group owns running services. Only one goroutine at a time may call Start and Stop.
type Group struct {
	log      *slog.Logger
	restarts *prometheus.CounterVec
	tasks    *tasks.Registry
	wrap     func(string, Run) Run

	running []*runner

	failOnce sync.Once
	failed   chan struct{}
	err      error // written once before failed is closed
}

// runner is one started service.
type runner struct {
	Service
	cancel context.CancelFunc
	ready  chan struct{}
	done   chan struct{}
	task   sync.WaitGroup
	first  error // of a service that was never ready; written before done is closed
}

// New returns an empty group.
func New(deps Deps) *Group {
	deps.Env.SetDefaults()
	g := &Group{
		log:    deps.Log,
		tasks:  deps.Tasks,
		wrap:   deps.Wrap,
		failed: make(chan struct{}),
		restarts: env.CounterVec("service_restarts_total",
			"Services restarted after they returned or panicked.", "task"),
	}
	env.MustRegister(deps.Metrics, g.restarts)
	return g
}

// Start runs services, which do not need each other, and waits until all are ready. A service gets the
// values of ctx, but not its cancellation, which only ends the wait: a started service runs until Stop,
// which ends those of one call in the reverse order too. If Start returns an error, which names the first
// service that failed, none of them runs.
func (g *Group) Start(ctx context.Context, services ...Service) error {
	runners := make([]*runner, len(services))
	for i, s := range services {
		runners[i] = g.begin(ctx, s)
	}
	for _, r := range runners {
		if err := g.wait(ctx, r); err != nil {
			for _, r := range slices.Backward(runners) {
				r.cancel()
				r.task.Wait()
			}
			if errors.Is(err, errEnded) {
				err = cmp.Or(r.first, g.Err()) // or it became ready and then failed for good, before wait saw that
			}
			return fmt.Errorf("start %s: %w", r.Name, err)
		}
	}
	g.running = append(g.running, runners...)
	return nil
}

// begin runs a service.
func (g *Group) begin(ctx context.Context, s Service) *runner {
	if s.StartTimeout == 0 {
		s.StartTimeout = 30 * time.Second
	}
	g.list(s, true)
	g.log.Debug("a service starts", "task", s.Name)
	if g.wrap != nil {
		s.Run = g.wrap(s.Name, s.Run)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &runner{Service: s, cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	end := g.tasks.Begin(tasks.Service)
	r.task.Go(func() {
		defer close(r.done)
		r.first = g.run(own, r)
		end(cmp.Or(own.Err(), r.first))
	})
	return r
}

// Declare lists a service that this node does not start, for docs/reference/tasks.md. Run may be nil.
func (g *Group) Declare(s Service) { g.list(s, false) }

// list adds a service to the list of tasks.
func (g *Group) list(s Service, started bool) {
	g.restarts.WithLabelValues(s.Name) // so that an alert sees the first one
	owner := s.Owner
	if owner == "" {
		name := runtime.FuncForPC(reflect.ValueOf(s.Run).Pointer()).Name() // such as allium/node/p2p.(*T).Run-fm
		dir, base := path.Split(name)
		base, _, _ = strings.Cut(base, ".")
		owner = strings.TrimPrefix(dir+base, module)
	}
	restart := fmt.Sprintf("run again after %v to %v; %d failures within %.0fs stop the node",
		backoffMin, backoffMax, maxRestarts+1, restartWindow.Seconds())
	if s.Fatal {
		restart = "the node stops"
	}
	g.tasks.List(tasks.Info{
		Name: s.Name, Kind: tasks.Service, Owner: owner, Count: 1, Fatal: s.Fatal, Restart: restart, Doc: s.Doc,
		When: s.When, Started: started,
	})
}

// module begins the paths of all packages.
const module = "allium/"

// errEnded reports that a service ended before it was ready.
var errEnded = errors.New("ended before it was ready")

// logProgressEvery is the time between two log lines about a start that takes long.
const logProgressEvery = 5 * time.Second

// wait waits until r is ready. It returns an error if r ends or ctx is done first, or
// if neither r is ready nor its progress changes for r.StartTimeout.
func (g *Group) wait(ctx context.Context, r *runner) error {
	begun := time.Now()
	tick := time.NewTicker(min(logProgressEvery, r.StartTimeout))
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
					g.log.Info("a service is starting and has much to do",
						"task", r.Name, "done", at, "after", now.Sub(begun).Round(time.Second))
				}
			}
			if now.Sub(moved) >= r.StartTimeout {
				return status.Errorf(status.Timeout, "not ready after %s", now.Sub(begun).Round(time.Second))
			}
		}
	}
}

// run runs one service, and restarts it, until ctx is done. It returns the error of a
// service that failed before it was ready for the first time. A later failure that may
// not be retried ends the group instead, and so does a panic while the service stops.
func (g *Group) run(ctx context.Context, r *runner) error {
	ready := sync.OnceFunc(func() { close(r.ready) })
	var failures []time.Time
	for {
		panicked := true
		err := guard.Run(func() error {
			err := r.Run(ctx, ready)
			panicked = false
			return err
		})
		if ctx.Err() != nil {
			if panicked { // a bug, and nobody knows what it left undone
				g.fail(fmt.Errorf("%s failed while it stopped: %w", r.Name, err))
				return nil
			}
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

// backoff returns the wait before the n-th restart within restartWindow, ± 25 %.
func backoff(n int) time.Duration {
	d := min(backoffMin<<(n-1), backoffMax)
	return d - d/4 + rand.N(d/2)
}

// fail ends the group with its first error.
func (g *Group) fail(err error) {
	g.failOnce.Do(func() {
		g.err = err
		close(g.failed)
	})
}

// Failed returns a channel that is closed when a service has failed for good. Err then
// returns the failure.
func (g *Group) Failed() <-chan struct{} { return g.failed }

// Err returns the failure that closed Failed, or nil.
func (g *Group) Err() error {
	select {
	case <-g.failed:
		return g.err
	default:
		return nil
	}
}

// Stop cancels the services one by one, the last started first, and waits for each. If
// ctx ends first, the remaining services have one more second: those that are not
// Fatal are cancelled at once, and the Fatal ones after them, one by one. After three
// quarters of that second the rest are cancelled too. Stop returns the names of the
// services that then still run. tasks_aborted_total counts them, and the tasks that they
// run. A second call does nothing.
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
	inOrder, grace := time.NewTimer(abortGrace*3/4), time.NewTimer(abortGrace)
	defer inOrder.Stop()
	defer grace.Stop()
	late, expired := false, false
	for i := len(g.running) - 1; i >= 0; i-- {
		r := g.running[i]
		r.cancel()
		if !late {
			select {
			case <-r.done:
			case <-inOrder.C:
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
			abandoned = append(abandoned, r.Name)
		}
	}
	g.running = nil
	if len(abandoned) > 0 {
		g.tasks.Abandon()
	}
	return abandoned
}
