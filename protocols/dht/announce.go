package dht

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// announcer publishes records in the background: what is queued, and
// everything again at every republish. It keeps nothing over a restart; then
// everything is published once more.
type announcer struct {
	publish  func(context.Context, b3.Root) (int, error)
	peers    func() int
	roots    func() iter.Seq[b3.Root] // may be nil
	every    time.Duration
	parallel int
	queue    *admission.Queue[announcement]
	m        *metrics
	log      *slog.Logger

	mu     sync.Mutex
	failed map[b3.Root]int // tries; at most maxFailed roots
}

// announcement is one record to publish.
type announcement struct {
	root b3.Root
	due  time.Time
}

const (
	retryEvery = time.Minute // for what could not be published
	maxTries   = 10          // then it waits for the next republish
	maxFailed  = 1024        // further failures wait for the next republish
	peersPoll  = 500 * time.Millisecond
)

func newAnnouncer(cfg Config, deps Deps, publish func(context.Context, b3.Root) (int, error), peers func() int, m *metrics) *announcer {
	return &announcer{
		publish: publish, peers: peers, roots: deps.Roots,
		every: cfg.Republish, parallel: cfg.Announcers,
		queue: admission.NewQueue[announcement](deps.Limits, admission.Spec{
			Name: "dht.announce", Path: "add, pin → announcer", Policy: "reject busy; the next republish has it",
		}, cfg.AnnounceQueue),
		m: m, log: deps.Log, failed: make(map[b3.Root]int),
	}
}

// add queues root, or returns status.Busy.
func (a *announcer) add(root b3.Root) error {
	return a.queue.TryPut(announcement{root, time.Now()})
}

// run publishes until ctx ends.
func (a *announcer) run(ctx context.Context) {
	var tasks sync.WaitGroup
	for range a.parallel {
		tasks.Go(func() { a.work(ctx) })
	}
	tasks.Go(func() { a.retry(ctx) })
	if a.roots != nil {
		tasks.Go(func() { a.republish(ctx) })
	}
	tasks.Wait()
}

// work publishes what is queued.
func (a *announcer) work(ctx context.Context) {
	for {
		n, err := a.queue.Get(ctx)
		if err != nil || !a.awaitPeers(ctx) {
			return
		}
		a.one(ctx, n)
		if a.queue.Len() == 0 {
			a.m.lag.Set(0)
		}
	}
}

// republish publishes all roots at the start and then every so often, ± 10 %
// so that a network started at once spreads out. Fresh announcements do not
// wait behind it: they have the queue and workers of their own.
func (a *announcer) republish(ctx context.Context) {
	due := time.Now()
	for sleep(ctx, time.Until(due)) && a.awaitPeers(ctx) {
		var sweep errgroup.Group
		sweep.SetLimit(a.parallel)
		for root := range a.roots() {
			if ctx.Err() != nil {
				break
			}
			sweep.Go(func() error { a.one(ctx, announcement{root, due}); return nil })
		}
		_ = sweep.Wait() // no call returns an error
		a.m.lag.Set(0)
		due = due.Add(jitter(a.every, 0.1))
	}
}

// retry queues again what has failed.
func (a *announcer) retry(ctx context.Context) {
	for sleep(ctx, jitter(retryEvery, 0.2)) {
		for _, root := range a.failures() {
			if a.add(root) != nil {
				break // the queue is full: next time
			}
		}
	}
}

// one publishes one record.
func (a *announcer) one(ctx context.Context, n announcement) {
	a.m.lag.Set(max(0, time.Since(n.due).Seconds()))
	acks, err := a.publish(ctx, n.root)
	switch {
	case err == nil:
		a.m.republish.WithLabelValues("ok").Inc()
		a.log.Debug("announced", "root", n.root, "acks", acks)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return
	default:
		a.m.republish.WithLabelValues("failed").Inc()
		a.log.Info("could not announce; will try again", "root", n.root, "reason", status.Of(err), "error", err)
	}
	a.record(n.root, err == nil)
}

// record keeps the failures to try again.
func (a *announcer) record(root b3.Root, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	tries, known := a.failed[root]
	switch {
	case ok || tries+1 >= maxTries:
		delete(a.failed, root)
	case known || len(a.failed) < maxFailed:
		a.failed[root] = tries + 1
	}
}

func (a *announcer) failures() []b3.Root {
	a.mu.Lock()
	defer a.mu.Unlock()
	roots := make([]b3.Root, 0, len(a.failed))
	for r := range a.failed {
		roots = append(roots, r)
	}
	return roots
}

// awaitPeers returns once a peer is known, or false when ctx ends: publishing
// to an empty table fails at once.
func (a *announcer) awaitPeers(ctx context.Context) bool {
	for a.peers() == 0 {
		if !sleep(ctx, peersPoll) {
			return false
		}
	}
	return true
}

// sleep waits for d and returns true, or false as soon as ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// jitter returns d ± part, evenly.
func jitter(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * (1 + part*(2*rand.Float64()-1)))
}
