package shards

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/erasure"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/cluster/repair"
	"allium/store/meta"
	"allium/store/storetest"
)

// cluster is a number of nodes with stores, which serve each other over a simulated network. Nodes know who holds
// what as planners that have every proof do.
type cluster struct {
	t     testing.TB
	net   *testkit.Network
	nodes []*node
}

type node struct {
	*Coder
	c      *cluster
	id     peer.ID
	store  *store.Store
	client *object.Client

	mu       sync.Mutex
	root     b3.Root // of the manifest
	manifest *erasure.Manifest
	piece    plan.Piece
	silent   bool
	missed   map[b3.Root]int // reads that found no holder, by the manifest
}

func newCluster(t testing.TB, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, net: testkit.NewNetwork(testkit.Options{})}
	t.Cleanup(c.net.Close)
	for range n {
		cfg := store.DefaultConfig()
		cfg.Dir = t.TempDir()
		st, _ := storetest.Start(t, cfg, store.Deps{})
		c.add(st)
	}
	return c
}

// add adds a node with a store.
func (c *cluster) add(st *store.Store) *node {
	c.t.Helper()
	x := &node{c: c, id: peer.ID(fmt.Sprint("node-", len(c.nodes))), store: st, missed: map[b3.Root]int{}}
	c.nodes = append(c.nodes, x)
	host := c.net.Host(x.id)
	server, err := object.NewServer(object.DefaultConfig(), object.ServerDeps{Host: host, Store: x})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(testkit.Start(c.t, server.Run))
	if x.client, err = object.NewClient(object.DefaultConfig(), object.ClientDeps{Host: host}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = x.client.Close() })
	x.Coder = New(Deps{
		Env:  env.Env{Metrics: prometheus.NewRegistry(), Limits: limits.NewRegistry(nil)},
		Self: x.id, Store: st, Objects: x.client, Put: x.put, Coding: x.coding, Holders: c.holders, Members: c.members,
		Missed: func(manifest b3.Root) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.missed[manifest]++
		},
		Filter: policy.AllowAll{},
	})
	return x
}

// OpenObject implements object.Store, as a node does.
func (x *node) OpenObject(ctx context.Context, root b3.Root) (object.Object, error) {
	x.mu.Lock()
	silent := x.silent
	x.mu.Unlock()
	if silent {
		return nil, status.Errorf(status.Busy, "not now")
	}
	o, err := x.store.Open(ctx, root)
	if status.Of(err) == status.NotFound {
		if o, failure := x.Open(ctx, root); failure == nil {
			return o, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Presence implements object.Store.
func (x *node) Presence(ctx context.Context, roots []b3.Root) ([]b3.Presence, error) {
	return x.store.Has(ctx, roots)
}

// put stores an object at a member as a put of a peer does: pinned for the cluster.
func (x *node) put(ctx context.Context, to peer.ID, obj b3.Object, meter repair.Meter) error {
	if meter.Sent != nil {
		if err := meter.Sent(ctx, int(obj.Size())); err != nil {
			return err
		}
	}
	at := x.c.find(to)
	section := obj.Reader().Section(0, -1)
	defer section.Close()
	info, err := at.store.Put(ctx, section, store.PutOptions{Expect: obj.Reader().Root()})
	if err != nil {
		return obj.Failed(err)
	}
	return at.store.Pin(ctx, info.Root, store.PinOptions{Label: meta.ClusterLabel})
}

func (x *node) coding(object b3.Root) (b3.Root, *erasure.Manifest, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.root, x.manifest, x.manifest != nil && x.manifest.Object == object
}

func (c *cluster) find(id peer.ID) *node {
	return c.nodes[slices.IndexFunc(c.nodes, func(x *node) bool { return x.id == id })]
}

func (c *cluster) members() (ids []peer.ID) {
	for _, x := range c.nodes {
		ids = append(ids, x.id)
	}
	return ids
}

func (c *cluster) holders(manifest b3.Root) (list []plan.Holder) {
	for _, x := range c.nodes {
		x.mu.Lock()
		if x.manifest != nil && x.root == manifest {
			list = append(list, plan.Holder{ID: plan.ID(x.id), Piece: x.piece})
		}
		x.mu.Unlock()
	}
	return list
}

// learn has a node look at what it holds, and reports whether that is a piece.
func (x *node) learn(root b3.Root) bool {
	x.c.t.Helper()
	m, err := x.Manifest(x.c.t.Context(), root)
	if err != nil {
		x.c.t.Fatal(err)
	}
	p, ok, err := x.Held(x.c.t.Context(), m)
	if err != nil {
		x.c.t.Fatal(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if ok {
		x.root, x.manifest, x.piece = root, m, p
	}
	return ok
}

// lose takes from a node all that it holds.
func (x *node) lose() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.manifest, x.silent = nil, true
}

func content(n int) []byte {
	p := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = rng.Read(p)
	return p
}

// spread codes an object at the first node and gives each other one a shard, as a planner does. It returns the
// object and the manifest.
func (c *cluster) spread(p []byte, data, parity int) (object, manifest b3.Root) {
	c.t.Helper()
	ctx, first := c.t.Context(), c.nodes[0]
	info, err := first.store.Put(ctx, bytes.NewReader(p), store.PutOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	manifest, err = first.Encode(ctx, info.Root, meta.Target{Data: data, Parity: parity, Seq: 1})
	if err != nil {
		c.t.Fatal(err)
	}
	if !first.learn(manifest) || first.piece != plan.Whole {
		c.t.Fatalf("the first node holds piece %d", first.piece)
	}
	at := 1
	for shard := 1; shard < data+parity; shard++ {
		if shard >= data-first.manifest.Empty() && shard < data {
			continue
		}
		c.give(first, c.nodes[at], manifest, shard)
		at++
	}
	return info.Root, manifest
}

// give has a node send a shard to another one.
func (c *cluster) give(from, to *node, manifest b3.Root, shard int) {
	c.t.Helper()
	var sent, fetched atomic.Int64
	count := func(n *atomic.Int64) repair.Wait {
		return func(_ context.Context, bytes int) error { n.Add(int64(bytes)); return nil }
	}
	meter := repair.Meter{Sent: count(&sent), Fetched: count(&fetched)}
	root := from.manifest.Shards[0][shard]
	_, here := from.store.Stat(c.t.Context(), root)
	has := here == nil || from.piece == plan.Whole && shard < from.manifest.Data
	if err := from.Send(c.t.Context(), to.id, manifest, from.manifest, plan.Shard(shard), meter); err != nil {
		c.t.Fatalf("shard %d: %v", shard, err)
	}
	want := int64(0)
	for _, root := range []b3.Root{manifest, from.manifest.Outboard, root} {
		info, err := to.store.Stat(c.t.Context(), root)
		if err != nil {
			c.t.Fatal(err)
		}
		want += info.Size
	}
	if sent.Load() != want || (fetched.Load() == 0) != has {
		c.t.Errorf("shard %d: %d bytes count as sent, want %d; %d as fetched", shard, sent.Load(), want, fetched.Load())
	}
	if !to.learn(manifest) || to.piece != plan.Shard(shard) {
		c.t.Fatalf("%s holds piece %d in place of shard %d", to.id, to.piece, shard)
	}
}

// read reads an object at a node that holds a shard.
func (x *node) read(object b3.Root, off, n int64) ([]byte, error) {
	return x.readIn(x.c.t.Context(), object, off, n)
}

func (x *node) readIn(ctx context.Context, object b3.Root, off, n int64) ([]byte, error) {
	o, err := x.Open(ctx, object)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	section := o.Reader().Section(off, off+n)
	defer section.Close()
	p, err := io.ReadAll(section)
	return p, o.Failed(err)
}

// TestReads: every range is read while all shards are there, with each loss of up to m of the other holders, the
// whole copy among them, and refused with one more.
func TestReads(t *testing.T) {
	t.Parallel()
	const g = b3.GroupSize
	for _, size := range []int{g + 1, 5*g - 1, 40*g + 77} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 6)
			p := content(size)
			object, manifest := c.spread(p, 4, 2)
			holders := slices.DeleteFunc(slices.Clone(c.nodes), func(x *node) bool { return x.manifest == nil })
			reader := holders[len(holders)-1]
			spare := 2 // of k + m, one reads
			for lost := range 1 << (len(holders) - 1) {
				n := 0
				for i, x := range holders[:len(holders)-1] {
					x.mu.Lock()
					if x.silent = lost>>i&1 == 1; x.silent {
						n++
					}
					x.mu.Unlock()
				}
				if n > spare+1 {
					continue
				}
				got, err := reader.read(object, 0, int64(size))
				switch {
				case n > spare && (status.Of(err) != status.NotFound || !strings.Contains(err.Error(), "needed")) &&
					err != nil:
					t.Fatalf("%b lost: %v", lost, err)
				case n > spare && err == nil && !bytes.Equal(got, p), n <= spare &&
					(err != nil || !bytes.Equal(got, p)):
					t.Fatalf("%b lost: %d of %d bytes, %v", lost, len(got), size, err)
				}
				reader.mu.Lock()
				missed := reader.missed[manifest]
				reader.mu.Unlock()
				// the first holder has the whole object
				if lost == 0 && missed > 0 || lost == 1<<n-1 && n > 0 && missed == 0 {
					t.Errorf("%b lost: %d reads missed a holder", lost, missed)
				}
			}
			for _, x := range holders {
				x.silent = false
			}
			holders[0].silent = true
			for _, r := range [][2]int64{{0, 1}, {g - 1, 2}, {int64(size) - 1, 1}, {int64(size) / 2, g}} {
				n := min(r[1], int64(size)-r[0])
				if got, err := reader.read(object, r[0], n); err != nil || !bytes.Equal(got, p[r[0]:r[0]+n]) {
					t.Errorf("%v: %v", r, err)
				}
			}
		})
	}
}

// TestRebuild: a holder makes the shard that a lost one had and gives it to another node; after each node was
// replaced in turn every byte is there.
func TestRebuild(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	p := content(9*b3.GroupSize + 3)
	object, manifest := c.spread(p, 2, 1)
	next := c.nodes[3]
	for i := range 8 {
		gone := c.nodes[i%3]
		if i == 0 {
			gone.piece = plan.Shard(0) // what the whole copy stood for
		}
		shard := gone.piece.Shard()
		gone.lose()
		from := c.nodes[(i+1)%3]
		c.give(from, next, manifest, shard)
		c.nodes[i%3], next = next, gone
		for root := range next.store.List(t.Context()) { // as a new node with the old name
			_ = next.store.Unpin(t.Context(), root.Root, meta.ClusterLabel)
			_ = next.store.Unpin(t.Context(), root.Root, meta.OriginLabel(next.id.String()))
		}
		for root := range next.store.List(t.Context()) {
			if err := next.store.Delete(t.Context(), root.Root); err != nil {
				t.Fatal(err)
			}
		}
		next.silent = false
		c.nodes = append(c.nodes[:3], next)
	}
	for _, x := range c.nodes[:3] {
		if got, err := x.read(object, 0, int64(len(p))); err != nil || !bytes.Equal(got, p) {
			t.Errorf("%s: %v", x.id, err)
		}
	}
}

// TestLyingManifest: shards that are not those of the object give no wrong byte: the read fails, and says why.
func TestLyingManifest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p, other := content(5*b3.GroupSize), content(5*b3.GroupSize + 1)[1:]
	object, _ := c.spread(p, 2, 1)
	wrong := newCluster(t, 3)
	_, manifest := wrong.spread(other, 2, 1)
	for i, x := range c.nodes[1:] {
		from := wrong.nodes[i+1]
		for info := range from.store.List(t.Context()) {
			o, err := from.store.Open(t.Context(), info.Root)
			if err != nil {
				t.Fatal(err)
			}
			if err := x.put(t.Context(), x.id, o, repair.Meter{}); err != nil {
				t.Fatal(err)
			}
			o.Close()
		}
		lie := *from.manifest
		lie.Object, lie.Outboard = object, x.manifest.Outboard
		x.root, x.manifest, x.piece = manifest, &lie, from.piece
	}
	c.nodes[0].lose()
	got, err := c.nodes[1].read(object, 0, int64(len(p)))
	if len(got) > 0 || status.Of(err) != status.Upstream || !strings.Contains(err.Error(), "manifest is wrong") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestFullStore: an encoding that the store refuses leaves no manifest, and goes through when there is space.
func TestFullStore(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Backend, cfg.MemoryBytes = store.BackendMemory, 4<<20
	st, _ := storetest.Start(t, cfg, store.Deps{})
	x := New(Deps{
		Env:  env.Env{Metrics: prometheus.NewRegistry(), Limits: limits.NewRegistry(nil)},
		Self: "node", Store: st, Filter: policy.AllowAll{},
	})
	info, err := st.Put(t.Context(), bytes.NewReader(content(2<<20)), store.PutOptions{})
	if err == nil {
		err = st.Pin(t.Context(), info.Root, store.PinOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	large := meta.Target{Data: 2, Parity: 5, Seq: 1}
	if _, err := x.Encode(t.Context(), info.Root, large); status.Of(err) != status.NoSpace {
		t.Errorf("without space: %v", err)
	}
	if _, err := x.Encode(t.Context(), info.Root, meta.Target{Data: 4, Parity: 1, Seq: 1}); err != nil {
		t.Errorf("with space: %v", err)
	}
}

// TestEncodeAgain: the same object and numbers have the same manifest on each node, and it is pinned.
func TestEncodeAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	var roots []b3.Root
	for _, x := range c.nodes {
		for range 2 {
			info, err := x.store.Put(t.Context(), bytes.NewReader(content(1<<20)), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			root, err := x.Encode(t.Context(), info.Root, meta.Target{Data: 6, Parity: 3, Seq: 7})
			if err != nil {
				t.Fatal(err)
			}
			roots = append(roots, root)
		}
		if ok, err := x.store.HasPin(t.Context(), roots[0], meta.OriginLabel(x.id.String())); err != nil || !ok {
			t.Errorf("the manifest is not pinned: %v", err)
		}
	}
	if len(slices.Compact(roots)) != 1 {
		t.Errorf("manifests %v", roots)
	}
}

// TestNoManifest: what is no manifest, or names itself, is refused.
func TestNoManifest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, p := range [][]byte{nil, []byte(erasure.Magic), content(erasure.MaxManifest + 1)} {
		info, err := c.nodes[0].store.Put(t.Context(), bytes.NewReader(p), store.PutOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.nodes[0].Manifest(t.Context(), info.Root); status.Of(err) != status.BadRequest {
			t.Errorf("%d bytes: %v", len(p), err)
		}
	}
}

// TestReadsAreBounded: readers wait for permits, and more than wait are told busy.
func TestReadsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	object, _ := c.spread(content(5*b3.GroupSize), 2, 1)
	x := c.nodes[1]
	for range readPermits {
		if _, err := x.reads.TryAcquire(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range readsWait {
		waiting.Go(func() {
			for ctx.Err() == nil { // a read may be in its place
				_, _ = x.reads.Acquire(ctx)
			}
		})
	}
	defer waiting.Wait()
	defer cancel()
	testkit.Eventually(t, "a full line", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // while there is room it waits
		defer cancel()
		_, err := x.readIn(ctx, object, 0, 1)
		return status.Of(err) == status.Busy
	})
}

// BenchmarkStore is the encoding of an object of 64 MiB: reading, hashing, computing and storing the parity.
func BenchmarkStore(b *testing.B) {
	c := newCluster(b, 1)
	x := c.nodes[0]
	info, err := x.store.Put(b.Context(), bytes.NewReader(content(64<<20)), store.PutOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(64 << 20)
	for b.Loop() {
		if _, err := x.Encode(b.Context(), info.Root, meta.Target{Data: 6, Parity: 3, Seq: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead is a read of 64 KiB at a node with a shard: from the holder of the data shard, and with that one lost.
func BenchmarkRead(b *testing.B) {
	c := newCluster(b, 9)
	object, _ := c.spread(content(24<<20), 6, 3)
	reader := c.nodes[8]
	for _, degraded := range []bool{false, true} {
		name := map[bool]string{false: "healthy", true: "degraded"}[degraded]
		c.nodes[0].silent, c.nodes[1].silent = true, degraded
		b.Run(name, func(b *testing.B) {
			b.SetBytes(b3.GroupSize)
			for b.Loop() {
				if _, err := reader.read(object, 5<<20, b3.GroupSize); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadAll is a read of a whole object at a node with a shard: from the holders of the data shards, and with
// one of these lost.
func BenchmarkReadAll(b *testing.B) {
	c := newCluster(b, 9)
	object, _ := c.spread(content(24<<20), 6, 3)
	reader := c.nodes[8]
	for _, degraded := range []bool{false, true} {
		name := map[bool]string{false: "healthy", true: "degraded"}[degraded]
		c.nodes[0].silent, c.nodes[1].silent = true, degraded
		b.Run(name, func(b *testing.B) {
			b.SetBytes(24 << 20)
			for b.Loop() {
				if _, err := reader.read(object, 0, 24<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
