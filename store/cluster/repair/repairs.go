// Package repair replaces damaged objects of a store by copies from peers, and fetches
// objects that a pin promises and the store has lost.
//
// Invariants: the queue, the number of workers, the rate and the remembered failures are
// bounded. An object that failed waits for a minute at least, then for twice as long
// each time, up to an hour. Nothing is forgotten when the queue is full, because Run looks
// at everything again within ten minutes.
//
// One repair, step by step: the store reports a damaged object to [Repairs.Damaged], or a
// check of the store reports a lost one to [Repairs.Lost]; Run's own walks find both. take
// puts the object into the queue, and a worker calls repair. That asks whether the object
// is still wanted, fetches it at the rate of all repairs, and tells the store that it is
// back. Then ended requests another walk when the queue is empty: an object that came back
// may be a directory that names more lost objects.
package repair

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/env"
	"allium/internal/guard"
	"allium/internal/limits"
	"allium/internal/tasks"
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
	burst     = 1 << 20            // burst of the rate, bytes
	aheadTime = time.Second / 4    // read-ahead of a repair, as time at its rate
	lookEvery = 10 * time.Minute   // longest time between two looks at all that is damaged or lost
	usedFor   = 7 * 24 * time.Hour // an object without a pin is repaired if it was used within this time
	minWait   = time.Minute        // wait after the first failure; each further one doubles it
	maxWait   = time.Hour          // longest wait after a failure, and of a fetch for the rate
	maxFailed = 1024               // remembered failures, the latest
)

// ops are the operations of the node that repairs call. Tests replace them.
type ops struct {
	// wanted reports whether an object is worth a repair.
	wanted func(ctx context.Context, root b3.Root) (bool, error)
	// fetch replaces an object by a provider's copy. It calls took for every n bytes that
	// have arrived; took waits until the rate allows them. fetch requests at most ahead
	// bytes before that.
	fetch func(ctx context.Context, root b3.Root, ahead int64, took func(n int) error) error
	// corrupt yields the objects that the store has marked as damaged.
	corrupt func(ctx context.Context) iter.Seq2[b3.Root, error]
	promiseOps
}

// Repairs fetches damaged objects of the store, and lost objects that pins promise. Any
// goroutine may report one to it with Damaged or Lost.
//
// Run also looks at all marked and promised objects from time to time. So it finds those
// for which the queue had no place, those that failed, and those of an earlier run.
type Repairs struct {
	log   *slog.Logger
	queue *limits.Queue[task]
	off   bool         // only Fetch repairs
	rate  *limits.Rate // nil: no bound
	moves *limits.Rate // of moves, beside rate; nil if that is
	ahead int64        // read-ahead, bytes; 0 if rate is nil
	m     metrics

	promises promiseState
	world    world // set by Join

	mu sync.Mutex // lock: leaf
	// pending has the objects in the queue or being repaired, at most queueLen + workers.
	// The value is nil if the object is not known to be promised.
	pending map[b3.Root]*gc.Lost
	failed  *simplelru.LRU[b3.Root, failedRepair] // at most maxFailed
}

// failedRepair says when an object that failed may be tried again.
type failedRepair struct {
	wait time.Duration // between the latest failure and next
	next time.Time
}

// New returns repairs of bytesPerSecond in all. If that is 0, or serve is false, repairs
// are off: only Fetch repairs an object, and with 0 it has no rate limit.
func New(bytesPerSecond limits.Bytes, serve bool, e env.Env) (*Repairs, error) {
	e.SetDefaults()
	registry := e.Limits
	failed, err := simplelru.NewLRU[b3.Root, failedRepair](maxFailed, nil)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	r := &Repairs{
		log: e.Log, off: !serve || bytesPerSecond == 0, pending: map[b3.Root]*gc.Lost{}, failed: failed,
		promises: newPromiseState(),
		queue: limits.NewQueue[task](registry, limits.Spec{
			Name: "repair", Path: "damaged objects, copies for other members → repair workers",
			Policy: "passed over and counted; looked at again within ten minutes, or planned again at the next tick",
		}, queueLen),
		m: newMetrics(e.Metrics),
	}
	r.m.tasks = e.Tasks
	e.Tasks.List(tasks.Info{
		Name: "repairs.workers", Kind: tasks.Worker, Started: true, Owner: "store/cluster/repair", Count: workers,
		Restart: "its repair failed, and it takes the next", Doc: "fetch objects again, and send copies",
	})
	if bytesPerSecond > 0 {
		r.ahead = max(burst, int64(aheadTime.Seconds()*float64(bytesPerSecond)))
		r.rate = registry.NewRate(limits.Spec{
			Name: "repair.bytes", Path: "providers → repairs (bytes per second)", Policy: "repairs wait",
		}, float64(bytesPerSecond), burst)
		r.moves = registry.NewRate(limits.Spec{
			Name: "repair.moves", Path: "copies → members that should have them (bytes per second)",
			Policy: "moves wait",
		}, float64(bytesPerSecond)/moveShare, burst)
	}
	return r, nil
}

// SetRate changes the rate, in bytes per second (≥ 1). It does nothing where there is none, which is decided at the
// start.
func (r *Repairs) SetRate(bytesPerSecond limits.Bytes) {
	if r.rate == nil || bytesPerSecond == 0 {
		return
	}
	r.rate.Set(float64(bytesPerSecond), burst)
	r.moves.Set(float64(bytesPerSecond)/moveShare, burst)
}

// Join sets the store whose objects are repaired and the resolver that fetches them. The
// caller calls it once, before Run and Fetch.
func (r *Repairs) Join(st *store.Store, from *resolver.Resolver) { r.world = world{st, from} }

// Off reports whether repairs are off, so that only Fetch repairs an object.
func (r *Repairs) Off() bool { return r.off }

// Run repairs until ctx ends and its workers have returned. The caller does not call it
// when repairs are off.
func (r *Repairs) Run(ctx context.Context) { r.run(ctx, r.world.ops()) }

// Fetch replaces an object now, outside the queue. All repairs together share one rate.
func (r *Repairs) Fetch(ctx context.Context, root b3.Root) error {
	return r.fetch(ctx, r.world.ops(), root)
}

// Damaged puts a damaged object into the queue. It does not wait. An object that finds the
// queue full, or that failed lately, is counted and left to the next look.
func (r *Repairs) Damaged(root b3.Root) {
	_ = r.take(root, nil)
}

// take puts root into the queue, or counts why it does not. It returns the reason, which is
// "" if root is in the queue now, or was before. l is nil unless root is known to be promised
// and lost.
func (r *Repairs) take(root b3.Root, l *gc.Lost) (why string) {
	defer func() {
		if why != "" {
			r.m.skipped.WithLabelValues(damage, why).Inc()
		}
	}()
	if r.off {
		return "off"
	}
	r.mu.Lock()
	was, queued := r.pending[root]
	f, backoff := r.failed.Peek(root)
	backoff = backoff && time.Now().Before(f.next)
	if !backoff && !queued || queued && was == nil {
		r.pending[root] = l
	}
	r.mu.Unlock()
	switch {
	case queued:
		return ""
	case backoff:
		return "backoff"
	}
	if r.queue.TryPut(task{root: root}) != nil {
		r.forget(root)
		return "full"
	}
	return ""
}

// forget removes root from pending and returns how many are left.
func (r *Repairs) forget(root b3.Root) (left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, root)
	return len(r.pending)
}

// work does the repairs in the queue until ctx ends.
func work(ctx context.Context, r *Repairs, do ops) {
	for {
		t, err := r.queue.Get(ctx)
		if err != nil {
			return
		}
		if t.job.Run != nil {
			r.do(ctx, t.job)
			continue
		}
		back := false
		err = guard.Guard{Log: r.log}.Run("a repair panicked", func() error {
			back = r.repair(ctx, do, t.root)
			return nil
		}, func() []any { return []any{"root", t.root} })
		if err != nil {
			r.backOff(t.root)
		}
		r.promises.ended(back, r.forget(t.root))
	}
}

// run is Run with the given operations.
func (r *Repairs) run(ctx context.Context, do ops) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { r.m.tasks.Run(ctx, func(ctx context.Context) { work(ctx, r, do) }) })
	}
	tick := time.NewTimer(lookEvery)
	defer tick.Stop()
	look := true
	for ctx.Err() == nil {
		r.follow(ctx, do, !look) // promised objects go first
		if look {
			plan(ctx, r, do)
			tick.Reset(r.promises.nextLook())
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

// plan puts every object that is marked as damaged into the queue.
func plan(ctx context.Context, r *Repairs, do ops) {
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

// repair repairs one object, if that is still wanted, and counts the outcome. It reports
// whether it has fetched an object that was promised and lost.
func (r *Repairs) repair(ctx context.Context, do ops, root b3.Root) (back bool) {
	r.mu.Lock()
	l := r.pending[root] // nil if it is not known to be promised
	r.mu.Unlock()
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
		r.m.skipped.WithLabelValues(damage, "unwanted").Inc()
		r.backOff(root)
		return false
	}
	begun := time.Now()
	err = r.fetch(ctx, do, root) // also if wanted or promised failed
	if ctx.Err() != nil {
		return false
	}
	r.m.objects.WithLabelValues(damage, status.Of(err).String()).Inc()
	if err != nil {
		r.log.Warn("a damaged object could not be repaired", "root", root, "err", err, "again_in", r.backOff(root))
		return false
	}
	r.mu.Lock()
	r.failed.Remove(root)
	r.mu.Unlock()
	r.log.Info("a damaged object was fetched again", "root", root, "took", time.Since(begun))
	if err := do.restored(ctx, root, l != nil && !l.Corrupt && !l.Pin.Root.IsZero()); err != nil && ctx.Err() == nil {
		r.log.Warn("the list of damage could not be updated after a repair", "root", root, "err", err)
	}
	return l != nil
}

// fetch replaces root. It counts the bytes and the time, and waits for the rate that all
// repairs share.
func (r *Repairs) fetch(ctx context.Context, do ops, root b3.Root) error {
	begun := time.Now()
	defer func() { r.m.seconds.WithLabelValues(damage).Add(time.Since(begun).Seconds()) }()
	return do.fetch(ctx, root, r.ahead, func(n int) error {
		r.m.bytes.WithLabelValues(damage).Add(float64(n))
		return r.wait(ctx, damage, false, n)
	})
}

// backOff notes a failure of root and returns how long it is not tried again.
func (r *Repairs) backOff(root b3.Root) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, _ := r.failed.Peek(root)
	f.wait = min(max(2*f.wait, minWait), maxWait)
	f.next = time.Now().Add(f.wait)
	r.failed.Add(root, f)
	return f.wait
}
