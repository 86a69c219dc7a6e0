package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"allium/node/config"
	"allium/node/p2p"
	"allium/node/supervise"
	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// The bounds of the repair of damaged objects.
const (
	repairQueue   = 256
	repairWorkers = 2
	repairBurst   = 1 << 20          // bytes that may come at once
	repairAhead   = time.Second / 4  // what a repair may ask for ahead of its pace, at its rate
	repairTick    = 10 * time.Minute // how often what was passed over is looked at again
	repairUsed    = 7 * 24 * time.Hour
	repairMinWait = time.Minute // after the first failure, doubled with each
	repairMaxWait = time.Hour
	repairFailed  = 1024 // objects whose failures are remembered, the latest
)

// repairOps are what repairs do to the world.
type repairOps struct {
	// wanted says whether an object is worth a repair.
	wanted func(ctx context.Context, root b3.Root) (bool, error)
	// fetch replaces an object by what a provider has. took waits until n more
	// bytes may come, of which at most ahead were asked for before.
	fetch func(ctx context.Context, root b3.Root, ahead int64, took func(n int) error) error
	// corrupt yields what is marked.
	corrupt func(ctx context.Context) iter.Seq2[b3.Root, error]
}

// repairs fetches again what was found damaged in the store. It is told by
// damaged, from any goroutine, and looks at what is marked now and then, so that
// what it had no room for, what failed and what an earlier run left is not
// forgotten.
type repairs struct {
	log     *slog.Logger
	queue   *admission.Queue[b3.Root]
	off     bool            // nothing is repaired unless it is asked for by name
	rate    *admission.Rate // nil: no bound
	ahead   int64           // bytes that may come before they are paid for, at most; 0 when there is no rate
	skipped *prometheus.CounterVec
	objects *prometheus.CounterVec
	bytes   prometheus.Counter
	seconds prometheus.Counter
	waited  prometheus.Histogram

	mu      sync.Mutex
	pending map[b3.Root]struct{}                  // queued or under way: at most repairQueue + repairWorkers
	failed  *simplelru.LRU[b3.Root, failedRepair] // at most repairFailed
}

// failedRepair is when an object may be tried again.
type failedRepair struct {
	wait time.Duration
	next time.Time
}

// newRepairs returns repairs at that rate, 0 for none; without serve, and
// without a rate, nothing is repaired but what is asked for by name.
func newRepairs(bytesPerSecond admission.Bytes, serve bool, log *slog.Logger, reg prometheus.Registerer, limits *admission.Registry) (*repairs, error) {
	failed, err := simplelru.NewLRU[b3.Root, failedRepair](repairFailed, nil)
	if err != nil {
		return nil, fmt.Errorf("node: repair: %w", err)
	}
	r := &repairs{
		log: log, off: !serve || bytesPerSecond == 0, pending: map[b3.Root]struct{}{}, failed: failed,
		queue: admission.NewQueue[b3.Root](limits, admission.Spec{
			Name: "repair", Path: "damaged objects → repair workers", Policy: "passed over and counted; looked at again within ten minutes",
		}, repairQueue),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "repair_skipped_total", Help: "Damaged objects that were not repaired: full (the queue), backoff (failed lately), unwanted (neither pinned nor used lately), off."}, []string{"reason"}),
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "repair_objects_total", Help: "Repairs of damaged objects that ended, by outcome."}, []string{"outcome"}),
		bytes:   prometheus.NewCounter(prometheus.CounterOpts{Name: "repair_bytes_total", Help: "Bytes fetched to repair damaged objects."}),
		seconds: prometheus.NewCounter(prometheus.CounterOpts{Name: "repair_seconds_total", Help: "Time spent on repairs of damaged objects."}),
		waited:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "repair_wait_seconds", Help: "How long repairs waited for store.repair_rate.", Buckets: prometheus.ExponentialBuckets(.001, 4, 8)}),
	}
	if bytesPerSecond > 0 {
		r.ahead = max(repairBurst, int64(repairAhead.Seconds()*float64(bytesPerSecond)))
		r.rate = limits.NewRate(admission.Spec{
			Name: "repair.bytes", Path: "providers → repairs (bytes per second)", Policy: "repairs wait",
		}, float64(bytesPerSecond), repairBurst)
	}
	reg.MustRegister(r.skipped, r.objects, r.bytes, r.seconds, r.waited)
	return r, nil
}

// damaged takes a damaged object to be repaired. It does not wait.
func (r *repairs) damaged(root b3.Root) {
	if why := r.accept(root); why != "" {
		r.skipped.WithLabelValues(why).Inc()
		return
	}
}

// accept queues root, or says why not; "" also when it is queued already.
func (r *repairs) accept(root b3.Root) (why string) {
	if r.off {
		return "off"
	}
	r.mu.Lock()
	_, twice := r.pending[root]
	f, backoff := r.failed.Peek(root)
	backoff = backoff && time.Now().Before(f.next)
	if !twice && !backoff {
		r.pending[root] = struct{}{}
	}
	r.mu.Unlock()
	switch {
	case twice:
		return ""
	case backoff:
		return "backoff"
	}
	if r.queue.TryPut(root) != nil {
		r.forget(root)
		return "full"
	}
	return ""
}

func (r *repairs) forget(root b3.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, root)
}

// run repairs until ctx ends. It is not called when repairs are off.
func (r *repairs) run(ctx context.Context, ops repairOps) {
	var wg sync.WaitGroup
	for range repairWorkers {
		wg.Go(func() {
			for {
				root, err := r.queue.Get(ctx)
				if err != nil {
					return
				}
				r.repair(ctx, ops, root)
				r.forget(root)
			}
		})
	}
	tick := time.NewTicker(repairTick)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.plan(ctx, ops)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	wg.Wait()
}

// plan queues what is marked.
func (r *repairs) plan(ctx context.Context, ops repairOps) {
	for root, err := range ops.corrupt(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("damaged objects could not be listed", "err", err)
			}
			return
		}
		r.damaged(root)
	}
}

// repair looks at one object and counts what came of it.
func (r *repairs) repair(ctx context.Context, ops repairOps, root b3.Root) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("a repair panicked", "root", root, "panic", p, "stack", string(debug.Stack()))
			r.later(root)
		}
	}()
	wanted, err := ops.wanted(ctx, root)
	if status.Of(err) == status.NotFound {
		return // removed meanwhile
	}
	if err == nil && !wanted {
		r.skipped.WithLabelValues("unwanted").Inc()
		r.later(root)
		return
	}
	begun := time.Now()
	err = r.fetch(ctx, ops, root) // when in doubt it is wanted
	if ctx.Err() != nil {
		return
	}
	r.objects.WithLabelValues(status.Of(err).String()).Inc()
	if err != nil {
		r.log.Warn("a damaged object could not be repaired", "root", root, "err", err, "again_in", r.later(root))
		return
	}
	r.mu.Lock()
	r.failed.Remove(root)
	r.mu.Unlock()
	r.log.Info("a damaged object was fetched again", "root", root, "took", time.Since(begun))
}

// fetch replaces root at the pace of all repairs.
func (r *repairs) fetch(ctx context.Context, ops repairOps, root b3.Root) error {
	begun := time.Now()
	defer func() { r.seconds.Add(time.Since(begun).Seconds()) }()
	return ops.fetch(ctx, root, r.ahead, func(n int) error {
		r.bytes.Add(float64(n))
		if r.rate == nil {
			return nil
		}
		begun := time.Now()
		err := r.rate.Wait(ctx, n, repairMaxWait)
		r.waited.Observe(time.Since(begun).Seconds())
		return err
	})
}

// later notes a failure and returns when the next try is due.
func (r *repairs) later(root b3.Root) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, _ := r.failed.Peek(root)
	f.wait = min(max(2*f.wait, repairMinWait), repairMaxWait)
	f.next = time.Now().Add(f.wait)
	r.failed.Add(root, f)
	return f.wait
}

// repairing reports whether a node fetches by itself what is damaged: a seed
// keeps no content, and RAM does not rot.
func repairing(cfg config.Config) bool {
	return cfg.Node.Profile != p2p.Seed && cfg.Store.Backend != store.BackendMemory
}

// repairOps are the repairs of this node.
func (n *Node) repairOps() repairOps {
	return repairOps{
		wanted: func(ctx context.Context, root b3.Root) (bool, error) { return n.store.Wanted(ctx, root, repairUsed) },
		fetch:  n.refetch,
		corrupt: func(ctx context.Context) iter.Seq2[b3.Root, error] {
			return func(yield func(b3.Root, error) bool) {
				if n.store.Stats().Corrupt == 0 {
					return // known without a look at each
				}
				for info, err := range n.store.List(ctx) {
					if (err != nil || info.Corrupt) && !yield(info.Root, err) {
						return
					}
				}
			}
		},
	}
}

// refetch fetches an object that is damaged or missing, as fast as took lets it.
func (n *Node) refetch(ctx context.Context, root b3.Root, ahead int64, took func(n int) error) error {
	want := resolver.Whole(resolver.Sources{})
	want.Ahead = ahead
	c, err := n.resolver.Open(ctx, root, want)
	if err != nil {
		return err
	}
	buf := make([]byte, b3.GroupSize)
	for err == nil {
		var k int
		if k, err = c.Read(buf); k > 0 {
			if e := took(k); e != nil {
				err = e
			}
		}
	}
	// The reader's seat keeps what has come until the fetch has its own.
	if errors.Is(err, io.EOF) {
		_, err = n.resolver.Fetch(ctx, root, resolver.FetchOptions{})
	}
	_ = c.Close() // it was only read
	return err
}

// startRepairs lets repairs begin: their providers are found from here on.
func (n *Node) startRepairs(ctx context.Context) error {
	if n.repairs.off {
		return nil
	}
	return n.services.Start(ctx, supervise.Service{Name: "repairs", Run: func(ctx context.Context, ready func()) error {
		ready()
		n.repairs.run(ctx, n.repairOps())
		return nil
	}})
}
