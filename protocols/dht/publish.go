package dht

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"allium/internal/guard"
	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// publisher publishes each object once, right after it was added or pinned, and then
// adds it to the sweep, which publishes it repeatedly. The sweep also publishes objects
// that the publisher gave up on or that were queued when the node stopped.
type publisher struct {
	publish   func(context.Context, b3.Root) (int, error)
	published func(context.Context, b3.Root) error // called after a success; adds the root to the sweep
	peers     func() int                           // size of the routing table
	paused    func() bool                          // reports that nothing may be published now; may be nil
	parallel  int
	tasks     *tasks.Registry
	queue     *limits.Queue[b3.Root]
	m         *metrics
	log       *slog.Logger
	guard     guard.Guard

	mu     sync.Mutex      // lock: leaf
	failed map[b3.Root]int // tries so far; at most maxFailed roots
}

const (
	retryEvery = time.Minute // interval between tries of failed roots
	maxTries   = 10          // then only the sweep publishes the root
	maxFailed  = 1024        // the sweep alone publishes further failed roots
	peersPoll  = 500 * time.Millisecond
)

func newPublisher(
	cfg Config, deps Deps, m *metrics,
	publish func(context.Context, b3.Root) (int, error), published func(context.Context, b3.Root) error,
	peers func() int,
) *publisher {
	deps.Tasks.List(tasks.Info{
		Name: "dht.announcers", Kind: tasks.Worker, Started: true, Owner: "protocols/dht", Count: cfg.Announcers,
		Restart: "its object counts as failed and is tried again, and it takes the next",
		Doc:     "publish what was added or pinned",
	})
	return &publisher{
		tasks:   deps.Tasks,
		publish: publish, published: published, peers: peers, paused: deps.ClockWrong,
		parallel: cfg.Announcers, m: m, log: deps.Log, guard: guard.Guard{Log: deps.Log}, failed: make(map[b3.Root]int),
		queue: limits.NewQueue[b3.Root](deps.Limits, limits.Spec{
			Name: "dht.announce", Path: "add, pin → announcer",
			Policy: "reject busy; the sweep publishes the object later",
		}, cfg.AnnounceQueue),
	}
}

// add queues root. It returns status.Busy if the queue is full.
func (a *publisher) add(root b3.Root) error { return a.queue.TryPut(root) }

// run publishes until ctx ends.
func (a *publisher) run(ctx context.Context) {
	var working sync.WaitGroup
	for range a.parallel {
		working.Go(func() { a.tasks.Run(ctx, a.work) })
	}
	working.Go(func() { a.retry(ctx) })
	working.Wait()
}

// work publishes queued roots until ctx ends.
func (a *publisher) work(ctx context.Context) {
	for {
		root, err := a.queue.Get(ctx)
		if err != nil || !a.awaitPeers(ctx) {
			return
		}
		publish := func() error { a.publishOne(ctx, root); return nil }
		if a.guard.Run("announcing an object panicked", publish, nil) != nil {
			a.m.announced.WithLabelValues("failed").Inc()
			a.recordResult(root, false)
		}
	}
}

// retry queues failed roots again.
func (a *publisher) retry(ctx context.Context) {
	for jitter.Sleep(ctx, jitter.Spread(retryEvery)) {
		for _, root := range a.failedRoots() {
			if a.add(root) != nil {
				break // the queue is full: try next time
			}
		}
	}
}

// publishOne publishes one root and records the result.
func (a *publisher) publishOne(ctx context.Context, root b3.Root) {
	acks, err := a.publish(ctx, root)
	if err == nil {
		err = a.published(ctx, root)
	}
	switch {
	case err == nil:
		a.m.announced.WithLabelValues("ok").Inc()
		a.log.Debug("announced", "root", root, "acks", acks)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return
	default:
		a.m.announced.WithLabelValues("failed").Inc()
		a.log.Info("could not announce an object; will try again", "root", root, "reason", status.Of(err), "error", err)
	}
	a.recordResult(root, err == nil)
}

// recordResult updates the failed roots.
func (a *publisher) recordResult(root b3.Root, ok bool) {
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

func (a *publisher) failedRoots() []b3.Root {
	a.mu.Lock()
	defer a.mu.Unlock()
	roots := make([]b3.Root, 0, len(a.failed))
	for r := range a.failed {
		roots = append(roots, r)
	}
	return roots
}

// awaitPeers returns true once the routing table has a peer and publishing is not paused.
// It returns false when ctx ends. Without a peer, publishing would fail at once.
func (a *publisher) awaitPeers(ctx context.Context) bool {
	for a.peers() == 0 || a.paused != nil && a.paused() {
		if !jitter.Sleep(ctx, peersPoll) {
			return false
		}
	}
	return true
}

// Announce queues root to be published in the background. The sweep then publishes it
// again while Deps.Roots lists it. Announce returns status.Busy if the queue is full.
func (s *Service) Announce(root b3.Root) error {
	if err := s.publisher.add(root); err != nil {
		return fmt.Errorf("announce %s: %w", root, err)
	}
	return nil
}
