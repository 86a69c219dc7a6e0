package upkeep

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	dssync "github.com/ipfs/go-datastore/sync"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/meta"
	"allium/store/storetest"
)

// cluster is nodes with stores of their own and a network that is simulated.
type cluster struct {
	t     *testing.T
	rate  limits.Bytes
	p     plan.Params
	hangs bool // a node that is not alive does not refuse, but is silent
	nodes []*node
	below map[b3.Root][]b3.Root
	fails b3.Root // the directory that cannot be listed

	mu    sync.Mutex
	sends []sent
	puts  int // requests that sent them
	asked int // other requests of the first node: to tell of objects, or to prove them
}

// sent is a copy that was sent.
type sent struct {
	from *node
	at   time.Time
	size int
	free bool // it does not keep to the rate of repairs
}

type node struct {
	c     *cluster
	id    peer.ID
	store *store.Store
	stop  func() // stops the service, not the store

	mu      sync.Mutex
	s       *Service // of the latest start
	alive   bool
	members *plan.Cluster
	seq     uint64
	drained time.Time   // since when it hands its copies over
	full    atomic.Bool // it offers no space
	failing atomic.Bool // its store sets no pins
	changes []Change
	dropped []b3.Root // as the audit log has them
	lacks   map[b3.Root]bool
	records ds.Datastore
	told    atomic.Bool // it takes targets and proves copies as these are put
}

// pins is a store that sets no pins while failing.
type pins struct {
	*store.Store
	failing *atomic.Bool
	lacks   func(root b3.Root) bool
}

// lack has the store of a node lack an object, as if its copy were damaged, or ends that.
func (x *node) lack(root b3.Root, lacks bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lacks[root] = lacks
}

func (s pins) Stat(ctx context.Context, root b3.Root) (store.Info, error) {
	if s.lacks(root) {
		return store.Info{}, status.Errorf(status.NotFound, "the object is not here")
	}
	return s.Store.Stat(ctx, root)
}

func (s pins) PinAll(ctx context.Context, list []store.Pinning) []error {
	if s.failing.Load() {
		return slices.Repeat([]error{status.Errorf(status.NoSpace, "the disk is full")}, len(list))
	}
	return s.Store.PinAll(ctx, list)
}

func (s pins) SetTarget(ctx context.Context, root b3.Root, label string, t meta.Target) (meta.Target, error) {
	if s.failing.Load() {
		return meta.Target{}, status.Errorf(status.NoSpace, "the disk is full")
	}
	return s.Store.SetTarget(ctx, root, label, t)
}

// noCoder has no room for shards.
type noCoder struct{ Coder }

func (noCoder) Encode(context.Context, b3.Root, meta.Target) (b3.Root, error) {
	return b3.Root{}, status.Errorf(status.NoSpace, "the disk is full")
}

const latency = 20 * time.Millisecond

func memoryConfig() store.Config {
	cfg := store.DefaultConfig()
	cfg.Backend = store.BackendMemory
	return cfg
}

// newCluster starts n nodes, which have met each other.
func newCluster(t *testing.T, n int, rate limits.Bytes) *cluster {
	t.Helper()
	return newClusterAt(t, n, rate, plan.TestnetParams())
}

// newClusterAt is newCluster with other times.
func newClusterAt(t *testing.T, n int, rate limits.Bytes, p plan.Params) *cluster {
	t.Helper()
	c := &cluster{t: t, rate: rate, p: p, below: map[b3.Root][]b3.Root{}}
	for i := range n {
		_, public, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{byte(i + 1)}, 64)))
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := storetest.Start(t, memoryConfig(), store.Deps{})
		c.nodes = append(c.nodes, &node{
			c: c, id: id, store: s, stop: func() {}, records: dssync.MutexWrap(ds.NewMapDatastore()),
			lacks: map[b3.Root]bool{},
		})
	}
	for i, x := range c.nodes {
		x.told.Store(i%2 == 1) // the others are as nodes of before
		x.start()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var offers sync.WaitGroup
	offers.Go(func() {
		for ctx.Err() == nil {
			c.offer()
			_ = limits.Sleep(ctx, c.p.Grace/4)
		}
	})
	t.Cleanup(func() {
		cancel()
		offers.Wait()
		for _, x := range c.nodes {
			x.kill()
		}
	})
	return c
}

// offer has each node that is alive hear an offer of each other one.
func (c *cluster) offer() {
	for _, from := range c.nodes {
		if !from.isAlive() {
			continue
		}
		for _, to := range c.nodes {
			m := plan.Member{ID: plan.ID(from.id), Capacity: 1 << 30, Free: 1 << 30,
				Place: plan.Place{Domain: string(from.id)}, Draining: !from.draining().IsZero()}
			if from.full.Load() {
				m.Free = 0
			}
			to.mu.Lock()
			to.seq++
			err := to.members.Offer(m, to.seq, time.Now())
			to.mu.Unlock()
			if err != nil {
				c.t.Error(err)
			}
		}
	}
}

func (x *node) isAlive() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.alive
}

func (x *node) draining() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.drained
}

// drain has a node hand its copies over, or ends that.
func (x *node) drain(since time.Time) {
	x.mu.Lock()
	x.drained = since
	x.mu.Unlock()
	x.c.offer()
	x.service().StartHandover()
}

func (x *node) service() *Service {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.s
}

// remembered returns how many objects and orphans a service remembers, and of how many objects the proofs from before
// its start that nothing asked for.
func (s *Service) remembered() (objects, orphans, before int) {
	s.inventory.mu.Lock()
	defer s.inventory.mu.Unlock()
	before = len(s.inventory.before)
	for i := range s.inventory.pages {
		if pg := &s.inventory.pages[i]; pg.Page != nil {
			for k := range pg.All {
				if !known(k) {
					before++
				}
			}
		}
	}
	return s.inventory.len(), len(s.scanner.orphans), before
}

// start starts the service and the repairs of a node, which knows its store only.
func (x *node) start() {
	p := x.c.p
	reg := prometheus.NewRegistry()
	repairs, err := repair.New(x.c.rate, true, env.Env{Metrics: reg, Limits: limits.NewRegistry(reg)})
	if err != nil {
		x.c.t.Fatal(err)
	}
	repairs.Join(x.store, nil)
	x.mu.Lock()
	x.alive = true
	if x.members == nil {
		x.members = plan.NewCluster(plan.ID(x.id), p, time.Now())
	}
	x.mu.Unlock()
	s := New(p, Deps{
		Env:  env.Env{Log: slog.New(slog.DiscardHandler), Metrics: reg, Now: time.Now},
		Self: plan.ID(x.id), View: x.view, Draining: x.draining,
		Store: pins{x.store, &x.failing, func(root b3.Root) bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.lacks[root]
		}},
		Prover: x, Repairs: repairs,
		Send: x.send,
		Below: func(_ context.Context, root b3.Root) iter.Seq2[b3.Root, error] {
			return func(yield func(b3.Root, error) bool) {
				if root == x.c.fails {
					yield(root, status.Errorf(status.Corrupt, "a bad directory"))
					return
				}
				for _, r := range x.c.below[root] {
					if !yield(r, nil) {
						return
					}
				}
			}
		},
		Records: x.records, Coder: noCoder{},
		Changed: func(ch Change) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.changes = append(x.changes, ch)
		},
		Dropping: func(_ context.Context, root b3.Root) (func(error), error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.dropped = append(x.dropped, root)
			return func(error) {}, nil
		},
	})
	x.mu.Lock()
	x.s = s
	x.mu.Unlock()
	ctx, cancel := context.WithCancel(x.c.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { repairs.Run(ctx) })
	wg.Go(func() {
		if err := s.Run(ctx, func() {}); err != nil {
			x.c.t.Error(err)
		}
	})
	x.stop = func() { cancel(); wg.Wait() }
}

// kill stops a node. Its store stays.
func (x *node) kill() {
	x.mu.Lock()
	x.alive = false
	x.mu.Unlock()
	x.stop()
}

func (x *node) view() *plan.View {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.members.View(time.Now())
}

// reach returns the node with that ID, after the time of a message.
func (x *node) reach(ctx context.Context, id peer.ID) (*node, error) {
	if err := limits.Sleep(ctx, latency); err != nil {
		return nil, err
	}
	for _, to := range x.c.nodes {
		if to.id == id && to.isAlive() && x.isAlive() {
			return to, nil
		}
	}
	if x.c.hangs {
		<-ctx.Done()
	}
	return nil, status.Errorf(status.Upstream, "%s is not reached", id)
}

// Challenge implements Prover.
func (x *node) Challenge(ctx context.Context, id peer.ID, objs []b3.Root) ([]plan.Response, error) {
	to, err := x.reach(ctx, id)
	if err != nil {
		return nil, err
	}
	x.askedOne()
	return to.prove(ctx, x, objs), nil
}

// askedOne counts a request of the first node.
func (x *node) askedOne() {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	if x == x.c.nodes[0] {
		x.c.asked++
	}
}

// prove answers a challenge of another node.
func (x *node) prove(ctx context.Context, from *node, objs []b3.Root) []plan.Response {
	x.service().Claimed(from.id, objs)
	answers := make([]plan.Response, len(objs))
	for i, root := range objs {
		answers[i].Answer = x.service().Answer(root)
		if kept, err := x.service().Kept(root); err == nil {
			answers[i].Piece = kept.Own
		}
		if _, err := x.store.Stat(ctx, root); err != nil && answers[i].Answer == plan.Proved {
			answers[i].Answer = plan.Absent
		}
	}
	return answers
}

// Tell implements Prover.
func (x *node) Tell(ctx context.Context, id peer.ID, told []plan.Told) ([]plan.Told, error) {
	to, err := x.reach(ctx, id)
	if err != nil {
		return nil, err
	}
	x.askedOne()
	return to.service().Told(ctx, x.id, told)
}

// Lease implements Prover.
func (x *node) Lease(ctx context.Context, id peer.ID, root b3.Root) (bool, error) {
	to, err := x.reach(ctx, id)
	if err != nil {
		return false, err
	}
	return to.service().GrantLease(ctx, x.id, root)
}

// send sends copies as puts of a member do.
func (x *node) send(ctx context.Context, id peer.ID, copies []plan.Told, meter repair.Meter) (out []Sent, err error) {
	if len(copies) > plan.MaxSent {
		x.c.t.Errorf("%d objects in one put", len(copies))
	}
	x.c.mu.Lock()
	x.c.puts++
	x.c.mu.Unlock()
	for _, c := range copies {
		out = append(out, Sent{Err: x.sendOne(ctx, id, c.Root, meter)})
	}
	to, err := x.reach(ctx, id)
	if err != nil || !to.told.Load() {
		return out, nil //nolint:nilerr // each has its own
	}
	for i, c := range copies {
		if out[i].Err != nil {
			continue
		}
		known, err := to.service().Told(ctx, x.id, []plan.Told{c})
		out[i].Told = err == nil && slices.EqualFunc(known[0].Asked, c.Asked, func(a, b plan.Asked) bool {
			return a.Origin == b.Origin && a.Target == b.Target
		})
		out[i].Proved = to.prove(ctx, x, []b3.Root{c.Root})[0].Answer == plan.Proved
	}
	return out, nil
}

func (x *node) sendOne(ctx context.Context, id peer.ID, root b3.Root, meter repair.Meter) error {
	data, err := storetest.Get(x.c.t, x.store, root)
	if err != nil {
		return err
	}
	if err := meter.Sent(ctx, len(data)); err != nil {
		return err
	}
	to, err := x.reach(ctx, id)
	if err != nil {
		return err
	}
	if _, err := to.store.Stat(ctx, root); err == nil { // nothing travels
		return to.store.Pin(ctx, root, store.PinOptions{Label: meta.ClusterLabel})
	}
	x.c.mu.Lock()
	x.c.sends = append(x.c.sends, sent{x, time.Now(), len(data), meter.Awaited})
	x.c.mu.Unlock()
	if _, err := to.store.PutBytes(ctx, data, store.PutOptions{Expect: root}); err != nil {
		return err
	}
	return to.store.Pin(ctx, root, store.PinOptions{Label: meta.ClusterLabel})
}

// sent returns how many copies were sent.
func (c *cluster) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sends)
}

// pinned returns the nodes that are alive and pin objects, by object.
func (c *cluster) pinned() map[b3.Root][]*node {
	by := map[b3.Root][]*node{}
	for _, x := range c.nodes {
		if !x.isAlive() {
			continue
		}
		for p, err := range x.store.Pins(c.t.Context()) {
			if err != nil {
				c.t.Fatal(err)
			}
			if at := by[p.Root]; len(at) == 0 || at[len(at)-1] != x {
				by[p.Root] = append(at, x)
			}
		}
	}
	return by
}

// want fails the test unless that many nodes pin each of the objects.
func (c *cluster) want(roots []b3.Root, n int) {
	c.t.Helper()
	by := c.pinned()
	for i, root := range roots {
		if got := len(by[root]); got != n {
			c.t.Errorf("object %d has %d copies, want %d", i, got, n)
		}
	}
}

// pin has a node store objects of a size, and pin them with a target.
func (c *cluster) pin(x *node, n, size, copies int) (roots []b3.Root) {
	c.t.Helper()
	for i := range n {
		root := storetest.Put(c.t, x.store, bytes.Repeat([]byte{byte(i), byte(n), byte(copies)}, size/3+1))
		err := x.store.Pin(c.t.Context(), root, store.PinOptions{Label: "mine", Target: meta.Target{Copies: copies}})
		if err != nil {
			c.t.Fatal(err)
		}
		roots = append(roots, root)
	}
	return roots
}
