package routing

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/protocols/kad"
	"allium/protocols/status"
)

// Table is the routing table. All of its methods may be called at any time,
// from any goroutine. Updates before Run and after its end are dropped and
// counted; what was in the table then stays, and can be read.
type Table struct {
	cfg      Config
	deps     Deps
	self     kad.Key
	groupCap int
	epoch    time.Time
	m        *metrics
	queues   *limits.QueueFamily[*update]
	buckets  [bucketCount]bucket

	busy    atomic.Bool // Run has not returned
	writers sync.WaitGroup
	mu      sync.Mutex      // of the next and every bucket's made
	running context.Context // nil while no writer may start
}

// New checks the configuration and starts nothing.
func New(cfg Config, deps Deps) (*Table, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Self == "" || deps.Addrs == nil || deps.Connected == nil {
		return nil, status.Errorf(status.BadRequest, "routing: Self, Addrs and Connected are needed")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	t := &Table{cfg: cfg, deps: deps, self: keyOf(deps.Self), groupCap: cfg.GroupCap(), epoch: time.Now()}
	var err error
	if t.m, err = newMetrics(deps.Metrics, t); err != nil {
		return nil, fmt.Errorf("routing: metrics: %w", err)
	}
	t.queues = limits.NewQueueFamily[*update](deps.Limits, limits.Spec{
		Name: "dht.route", Path: "lookups → the bucket's single writer", Policy: "each bucket: wait ≤ 100 ms, then drop and count",
	}, queueSize)
	return t, nil
}

// Run takes updates until ctx ends, and returns when all writers have. A
// bucket's writer starts with its first update.
func (t *Table) Run(ctx context.Context, ready func()) error {
	if !t.busy.CompareAndSwap(false, true) {
		return status.Errorf(status.Internal, "routing: already running")
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

// close lets no more writers start and no more updates wait for one.
func (t *Table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = nil
	for i := range t.buckets {
		t.buckets[i].queue.Store(nil)
	}
}

// open returns the queue of b with its writer started, or nil when the table
// does not run.
func (t *Table) open(b *bucket) *limits.Queue[*update] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := b.queue.Load(); q != nil || t.running == nil {
		return q // somebody else was first, or nobody may be
	}
	if b.made == nil {
		b.made = t.queues.Queue()
	}
	ctx, q := t.running, b.made
	t.writers.Go(func() { t.write(ctx, b, q) })
	b.queue.Store(q)
	return q
}

// write is the one writer of b.
func (t *Table) write(ctx context.Context, b *bucket, q *limits.Queue[*update]) {
	for {
		u, err := q.Get(ctx)
		if err != nil {
			return
		}
		t.apply(b, u)
	}
}

// Seen tells that p answered a question after rtt (0: unknown): it is added, if
// there is a place for it, or refreshed. Seen waits at most 100 ms, and no
// longer than ctx, for room in the queue of p's bucket; then the update is
// dropped and counted.
func (t *Table) Seen(ctx context.Context, p peer.ID, rtt time.Duration) {
	t.send(ctx, update{Peer: kad.Peer[peer.ID]{ID: p}, rtt: rtt})
}

// Failed tells that p did not answer a question: without a connection it goes,
// with one after three failures in a row. It waits as [Table.Seen] does.
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

// bucketOf is the bucket of a key that is not the node's.
func (t *Table) bucketOf(key kad.Key) *bucket {
	return &t.buckets[min(t.self.CommonPrefix(key), bucketCount-1)]
}
