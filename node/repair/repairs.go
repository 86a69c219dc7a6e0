// Package repair fetches again what is damaged in a store, and what its pins
// promise and it has not got.
package repair

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
	"allium/store/gc"
)

// The bounds of the repair of damaged and lost objects.
const (
	queueLen  = 256
	workers   = 2
	burst     = 1 << 20          // bytes that may come at once
	aheadTime = time.Second / 4  // what a repair may ask for ahead of its pace, at its rate
	lookEvery = 10 * time.Minute // how often what was passed over is looked at again
	usedFor   = 7 * 24 * time.Hour
	minWait   = time.Minute // after the first failure, doubled with each
	maxWait   = time.Hour
	maxFailed = 1024 // objects whose failures are remembered, the latest
)

// ops are what repairs do to the world.
type ops struct {
	// wanted says whether an object is worth a repair.
	wanted func(ctx context.Context, root b3.Root) (bool, error)
	// fetch replaces an object by what a provider has. took waits until n more
	// bytes may come, of which at most ahead were asked for before.
	fetch func(ctx context.Context, root b3.Root, ahead int64, took func(n int) error) error
	// corrupt yields what is marked.
	corrupt func(ctx context.Context) iter.Seq2[b3.Root, error]
	promiseOps
}

// Repairs fetches again what was found damaged in the store, and what is lost
// and promised. It is told by Damaged and Lost, from any goroutine, and looks at
// what is marked and promised now and then, so that what it had no room for,
// what failed and what an earlier run left is not forgotten.
type Repairs struct {
	log   *slog.Logger
	queue *limits.Queue[b3.Root]
	off   bool         // nothing is repaired unless it is asked for by name
	rate  *limits.Rate // nil: no bound
	ahead int64        // bytes that may come before they are paid for, at most; 0 when there is no rate
	m     metrics

	promises promiseState
	world    world // set by Join

	mu      sync.Mutex
	pending map[b3.Root]*gc.Lost                  // queued or under way: at most queueLen + workers; nil: not known to be promised
	failed  *simplelru.LRU[b3.Root, failedRepair] // at most maxFailed
}

// failedRepair is when an object may be tried again.
type failedRepair struct {
	wait time.Duration
	next time.Time
}

// New returns repairs at that rate, 0 for none; without serve, and
// without a rate, nothing is repaired but what is asked for by name.
func New(bytesPerSecond limits.Bytes, serve bool, log *slog.Logger, reg prometheus.Registerer, registry *limits.Registry) (*Repairs, error) {
	failed, err := simplelru.NewLRU[b3.Root, failedRepair](maxFailed, nil)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	r := &Repairs{
		log: log, off: !serve || bytesPerSecond == 0, pending: map[b3.Root]*gc.Lost{}, failed: failed, promises: newPromiseState(),
		queue: limits.NewQueue[b3.Root](registry, limits.Spec{
			Name: "repair", Path: "damaged objects → repair workers", Policy: "passed over and counted; looked at again within ten minutes",
		}, queueLen),
		m: newMetrics(reg),
	}
	if bytesPerSecond > 0 {
		r.ahead = max(burst, int64(aheadTime.Seconds()*float64(bytesPerSecond)))
		r.rate = registry.NewRate(limits.Spec{
			Name: "repair.bytes", Path: "providers → repairs (bytes per second)", Policy: "repairs wait",
		}, float64(bytesPerSecond), burst)
	}
	return r, nil
}

// Join names the store whose objects are repaired, and where they are fetched. It
// comes before Run and Fetch.
func (r *Repairs) Join(st *store.Store, from *resolver.Resolver) { r.world = world{st, from} }

// Off reports whether nothing is repaired unless it is asked for by name.
func (r *Repairs) Off() bool { return r.off }

// Run repairs until ctx ends. It is not called when repairs are off.
func (r *Repairs) Run(ctx context.Context) { r.run(ctx, r.world.ops()) }

// Fetch replaces an object now, at the pace of all repairs.
func (r *Repairs) Fetch(ctx context.Context, root b3.Root) error {
	return r.fetch(ctx, r.world.ops(), root)
}

// Damaged takes a damaged object to be repaired. It does not wait.
func (r *Repairs) Damaged(root b3.Root) {
	_ = r.take(root, nil)
}

// take queues root, and counts why not; "" also when it is queued already.
func (r *Repairs) take(root b3.Root, l *gc.Lost) (why string) {
	if why = r.accept(root, l); why != "" {
		r.m.skipped.WithLabelValues(why).Inc()
	}
	return why
}

// accept is take without the count. l is set of what is known to be lost.
func (r *Repairs) accept(root b3.Root, l *gc.Lost) (why string) {
	if r.off {
		return "off"
	}
	r.mu.Lock()
	was, twice := r.pending[root]
	f, backoff := r.failed.Peek(root)
	backoff = backoff && time.Now().Before(f.next)
	if !backoff && !twice || twice && was == nil {
		r.pending[root] = l
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

// forget ends what is pending of root, and returns how much is left.
func (r *Repairs) forget(root b3.Root) (left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, root)
	return len(r.pending)
}

// promise is how root is known to be lost; nil: it is not.
func (r *Repairs) promise(root b3.Root) *gc.Lost {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[root]
}

// run is Run in any world.
func (r *Repairs) run(ctx context.Context, do ops) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				root, err := r.queue.Get(ctx)
				if err != nil {
					return
				}
				back := r.repair(ctx, do, root)
				r.ended(back, r.forget(root))
			}
		})
	}
	tick := time.NewTimer(lookEvery)
	defer tick.Stop()
	look := true
	for ctx.Err() == nil {
		r.follow(ctx, do, !look) // what is promised goes first
		if look {
			r.plan(ctx, do)
			tick.Reset(r.nextLook())
		}
		look = false
		select {
		case <-tick.C:
			look = true
		case <-r.promises.again:
		case <-ctx.Done():
		}
	}
	wg.Wait()
}

// plan queues what is marked.
func (r *Repairs) plan(ctx context.Context, do ops) {
	for root, err := range do.corrupt(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("damaged objects could not be listed", "err", err)
			}
			return
		}
		r.Damaged(root)
	}
}

// repair looks at one object and counts what came of it. It reports whether the
// object was promised, and is back.
func (r *Repairs) repair(ctx context.Context, do ops, root b3.Root) (back bool) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("a repair panicked", "root", root, "panic", p, "stack", string(debug.Stack()))
			r.later(root)
		}
	}()
	l := r.promise(root)
	wanted, err := true, error(nil)
	if l == nil {
		wanted, err = do.wanted(ctx, root)
	} else if lost, e := do.promised(ctx, *l); e == nil && !lost {
		return false // it came back, or its pin was removed
	}
	if status.Of(err) == status.NotFound {
		return false // removed meanwhile
	}
	if err == nil && !wanted {
		r.m.skipped.WithLabelValues("unwanted").Inc()
		r.later(root)
		return false
	}
	begun := time.Now()
	err = r.fetch(ctx, do, root) // when in doubt it is wanted
	if ctx.Err() != nil {
		return false
	}
	r.m.objects.WithLabelValues(status.Of(err).String()).Inc()
	if err != nil {
		r.log.Warn("a damaged object could not be repaired", "root", root, "err", err, "again_in", r.later(root))
		return false
	}
	r.mu.Lock()
	r.failed.Remove(root)
	r.mu.Unlock()
	r.log.Info("a damaged object was fetched again", "root", root, "took", time.Since(begun))
	if err := do.restored(ctx, root, l != nil && !l.Corrupt && !l.Pin.Root.IsZero()); err != nil && ctx.Err() == nil {
		r.log.Warn("what a repair means for the list of damage could not be noted", "root", root, "err", err)
	}
	return l != nil
}

// fetch replaces root at the pace of all repairs.
func (r *Repairs) fetch(ctx context.Context, do ops, root b3.Root) error {
	begun := time.Now()
	defer func() { r.m.seconds.Add(time.Since(begun).Seconds()) }()
	return do.fetch(ctx, root, r.ahead, func(n int) error {
		r.m.bytes.Add(float64(n))
		if r.rate == nil {
			return nil
		}
		begun := time.Now()
		err := r.rate.Wait(ctx, n, maxWait)
		r.m.waited.Observe(time.Since(begun).Seconds())
		return err
	})
}

// later notes a failure and returns when the next try is due.
func (r *Repairs) later(root b3.Root) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, _ := r.failed.Peek(root)
	f.wait = min(max(2*f.wait, minWait), maxWait)
	f.next = time.Now().Add(f.wait)
	r.failed.Add(root, f)
	return f.wait
}
