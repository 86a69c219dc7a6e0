package dht

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// announcer publishes at once what was just added or pinned, and hands it to
// the sweep, which publishes it again and again. What it gives up on, and what
// was queued when the node stopped, is left to the sweep.
type announcer struct {
	publish  func(context.Context, b3.Root) (int, error)
	done     func(context.Context, b3.Root) error // takes what was published
	peers    func() int
	held     func() bool // nothing is published now
	parallel int
	queue    *limits.Queue[b3.Root]
	m        *metrics
	log      *slog.Logger

	mu     sync.Mutex
	failed map[b3.Root]int // tries; at most maxFailed roots
}

const (
	retryEvery = time.Minute // for what could not be published
	maxTries   = 10          // then it is left to the sweep
	maxFailed  = 1024        // further failures are left to the sweep
	peersPoll  = 500 * time.Millisecond
)

func newAnnouncer(cfg Config, deps Deps, m *metrics, publish func(context.Context, b3.Root) (int, error), done func(context.Context, b3.Root) error, peers func() int) *announcer {
	return &announcer{
		publish: publish, done: done, peers: peers, held: deps.ClockWrong, parallel: cfg.Announcers, m: m, log: deps.Log, failed: make(map[b3.Root]int),
		queue: limits.NewQueue[b3.Root](deps.Limits, limits.Spec{
			Name: "dht.announce", Path: "add, pin → announcer", Policy: "reject busy; the sweep has it later",
		}, cfg.AnnounceQueue),
	}
}

// add queues root, or returns status.Busy.
func (a *announcer) add(root b3.Root) error { return a.queue.TryPut(root) }

// run publishes until ctx ends.
func (a *announcer) run(ctx context.Context) {
	var tasks sync.WaitGroup
	for range a.parallel {
		tasks.Go(func() { a.work(ctx) })
	}
	tasks.Go(func() { a.retry(ctx) })
	tasks.Wait()
}

// work publishes what is queued.
func (a *announcer) work(ctx context.Context) {
	for {
		root, err := a.queue.Get(ctx)
		if err != nil || !a.awaitPeers(ctx) {
			return
		}
		a.one(ctx, root)
	}
}

// retry queues again what has failed.
func (a *announcer) retry(ctx context.Context) {
	for jitter.Sleep(ctx, jitter.Spread(retryEvery)) {
		for _, root := range a.failures() {
			if a.add(root) != nil {
				break // the queue is full: next time
			}
		}
	}
}

// one publishes one record.
func (a *announcer) one(ctx context.Context, root b3.Root) {
	acks, err := a.publish(ctx, root)
	if err == nil {
		err = a.done(ctx, root)
	}
	switch {
	case err == nil:
		a.m.announced.WithLabelValues("ok").Inc()
		a.log.Debug("announced", "root", root, "acks", acks)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return
	default:
		a.m.announced.WithLabelValues("failed").Inc()
		a.log.Info("could not announce; will try again", "root", root, "reason", status.Of(err), "error", err)
	}
	a.record(root, err == nil)
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

// awaitPeers returns once a peer is known and nothing holds publishing, or false
// when ctx ends: publishing to an empty table fails at once.
func (a *announcer) awaitPeers(ctx context.Context) bool {
	for a.peers() == 0 || a.held != nil && a.held() {
		if !jitter.Sleep(ctx, peersPoll) {
			return false
		}
	}
	return true
}
