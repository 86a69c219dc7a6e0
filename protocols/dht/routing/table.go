package routing

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/guard"
	"allium/internal/limits"
	"allium/internal/tasks"
	"allium/protocols/kad"
	"allium/protocols/status"
)

// Table is the routing table. Its methods are safe for concurrent use, at any time.
// Updates before Run and after its end are dropped and counted. The entries stay readable
// after Run has ended.
type Table struct {
	cfg      Config
	deps     Deps
	self     kad.Key
	groupCap int
	epoch    time.Time
	m        *metrics
	queues   *limits.Queue[*update]
	buckets  [bucketCount]bucket

	busy    atomic.Bool // Run has not returned
	writers sync.WaitGroup
	mu      sync.Mutex      // guards running and bucket.reusable; lock: metadata
	running context.Context // nil while no writer may start
}

// New returns a Table that is not running. It starts nothing.
func New(cfg Config, deps Deps) (*Table, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Self == "" || deps.Addrs == nil || deps.Connected == nil {
		return nil, status.Errorf(status.BadRequest, "the routing table needs Self, Addrs and Connected")
	}
	deps.Env.SetDefaults()
	t := &Table{cfg: cfg, deps: deps, self: keyOf(deps.Self), groupCap: cfg.GroupCap(), epoch: time.Now()}
	var err error
	if t.m, err = newMetrics(deps.Metrics, t); err != nil {
		return nil, fmt.Errorf("register routing metrics: %w", err)
	}
	t.queues = limits.NewQueue[*update](deps.Limits, limits.Spec{
		Name: "dht.route", Path: "lookups → the bucket's single writer",
		Policy: "wait ≤ 100 ms, then drop and count", Each: "bucket",
	}, queueSize)
	deps.Tasks.List(tasks.Info{
		Name: "dht.routing", Kind: tasks.Worker, Started: true, Owner: "protocols/dht/routing", Count: bucketCount,
		Restart: "its update is dropped, and it takes the next",
		Doc:     "change the routing table, one for each bucket, from its first change on",
	})
	return t, nil
}

// Run applies updates until ctx ends. It returns when all writers have. A bucket's writer
// starts with the first update.
func (t *Table) Run(ctx context.Context, ready func()) error {
	if !t.busy.CompareAndSwap(false, true) {
		return status.Errorf(status.Internal, "the routing table already runs")
	}
	defer t.busy.Store(false)
	t.mu.Lock()
	t.running = ctx
	t.mu.Unlock()
	ready()
	<-ctx.Done()
	t.close()
	t.writers.Wait()
	return nil
}

// close stops writers from starting and senders from queueing.
func (t *Table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = nil
	for i := range t.buckets {
		t.buckets[i].queue.Store(nil)
	}
}

// open returns the queue of b and starts its writer. It returns nil if the table does not
// run.
func (t *Table) open(b *bucket) *limits.Queue[*update] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := b.queue.Load(); q != nil || t.running == nil {
		return q // another caller opened it, or the table does not run
	}
	if b.reusable == nil {
		b.reusable = t.queues.Member()
	}
	ctx, q := t.running, b.reusable
	t.writers.Go(func() { t.deps.Tasks.Run(ctx, func(ctx context.Context) { t.write(ctx, b, q) }) })
	b.queue.Store(q)
	return q
}

// write is the only writer of b. It runs until ctx ends.
func (t *Table) write(ctx context.Context, b *bucket, q *limits.Queue[*update]) {
	g := guard.Guard{Log: t.deps.Log}
	for {
		u, err := q.Get(ctx)
		if err != nil {
			return
		}
		apply := func() error { t.apply(b, u); return nil }
		_ = g.Run("a change of the routing table panicked", apply, nil) // it has logged the panic
	}
}

// Seen reports that p answered a call after rtt (0: unknown). p is refreshed, or added if
// the rules of the table allow it. Seen waits at most 100 ms, and no longer than ctx, for a
// place in the queue of p's bucket. Then the update is dropped and counted.
func (t *Table) Seen(ctx context.Context, p peer.ID, rtt time.Duration) {
	t.send(ctx, update{Peer: kad.Peer[peer.ID]{ID: p}, rtt: rtt})
}

// Failed reports that p did not answer a call. p is removed if it is not connected, or
// after three failures in a row. Failed waits like [Table.Seen].
func (t *Table) Failed(ctx context.Context, p peer.ID) {
	t.send(ctx, update{Peer: kad.Peer[peer.ID]{ID: p}, failed: true})
}

func (t *Table) send(ctx context.Context, u update) {
	if u.ID == t.deps.Self {
		return
	}
	u.Key, u.at = keyOf(u.ID), time.Since(t.epoch)
	b := t.bucketOf(u.Key)
	q := b.queue.Load()
	if q == nil {
		q = t.open(b)
	}
	if q == nil || q.Put(ctx, &u, sendTimeout) != nil {
		t.m.dropped.Inc()
	}
}

func keyOf(p peer.ID) kad.Key { return kad.Hash([]byte(p)) }

// bucketOf returns the bucket of a key other than the node's.
func (t *Table) bucketOf(key kad.Key) *bucket {
	return &t.buckets[min(t.self.CommonPrefix(key), bucketCount-1)]
}
