package upkeep

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dssync "github.com/ipfs/go-datastore/sync"

	"allium/protocols/b3"
	"allium/store/cluster/plan"
)

// TestProofsOutlastRestarts: after a restart copies count as they did before, though no holder answers, and each as
// long as its proof is good. Without what was kept, or with a damaged page, none counts.
func TestProofsOutlastRestarts(t *testing.T) {
	for name, test := range map[string]struct {
		away time.Duration // of the node
		harm func(t *testing.T, x *node)
		kept bool
	}{
		"a moment":  {away: time.Second, kept: true},
		"too long":  {away: 3 * params.AuditPeriod},
		"forgotten": {away: time.Second, harm: func(_ *testing.T, x *node) { x.records = ds.NewMapDatastore() }},
		"damaged": {away: time.Second, harm: func(t *testing.T, x *node) {
			damage(t, x.records, func(p []byte) []byte { p[len(p)/2] ^= 1; return p })
		}},
		"cut": {away: time.Second, harm: func(t *testing.T, x *node) {
			damage(t, x.records, func(p []byte) []byte { return p[:5] })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 5, fast)
				run(params.Grace)
				x := c.nodes[0]
				c.pin(x, 8, 1000, 3)
				run(params.Grace)
				if n := x.service().Sum(); n.Observed != 24 {
					t.Fatalf("at first %+v", n)
				}
				for _, y := range c.nodes {
					y.kill()
				}
				time.Sleep(test.away)
				if test.harm != nil {
					test.harm(t, x)
				}
				x.start()
				c.offer() // the others are members, and do not answer
				for _, y := range c.nodes[1:] {
					y.mu.Lock()
					x.mu.Lock()
					x.seq++
					err := x.members.Offer(plan.Member{ID: plan.ID(y.id), Capacity: 1 << 30}, x.seq, time.Now())
					x.mu.Unlock()
					y.mu.Unlock()
					if err != nil {
						t.Fatal(err)
					}
				}
				run(params.Tick)
				want := 8
				if test.kept {
					want = 24
				}
				if n := x.service().Report(); n.Observed != want || !n.Ready {
					t.Errorf("after the restart %d copies count, want %d", n.Observed, want)
				}
				if _, _, n := x.service().remembered(); n > 0 {
					t.Error("what is not needed any more is not forgotten")
				}
				for _, y := range c.nodes[1:] {
					y.start()
				}
				run(2 * params.Grace)
				if n := x.service().Report(); n.Observed != 24 {
					t.Errorf("when all are back %d copies count", n.Observed)
				}
			})
		})
	}
}

// TestProofsOutlastCrashes: what holders proved is kept within 10 s after it changed, whether an object is active or
// was at rest, so that after a crash all copies count that did before. When all pages are written nothing else is left.
func TestProofsOutlastCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan.DefaultParams()
		c := newClusterAt(t, 6, fast, p)
		run(p.Grace)
		x := c.nodes[0]
		crash := func(what string) {
			t.Helper()
			run(2 * keepEvery)
			kept := copyOf(t, x.records)
			observed := x.service().Sum().Observed
			var others []*node
			for _, y := range c.nodes {
				if y.isAlive() && y != x {
					others = append(others, y)
				}
			}
			for _, y := range append(others, x) {
				y.kill()
			}
			x.records = kept
			x.start()
			run(2 * p.Tick)
			if n := x.service().Report(); n.Observed != 60 || observed != 60 || n.Checking+n.AtRisk+n.Lost > 0 {
				t.Errorf("%s: %d copies count, and %+v before", what, observed, n.Sum)
			}
			for _, y := range others {
				y.start()
			}
			run(p.Grace)
		}
		roots := c.pin(x, 20, 1000, 3)
		run(3 * p.Tick)
		crash("soon after they were made")
		run(4 * keptTicks * p.Tick)
		c.pinned()[roots[0]][1].kill()
		for sent := c.sent(); c.sent() == sent; {
			run(p.Tick)
		}
		run(3 * p.Grace) // the others follow, in turn
		crash("after some were made again")
		x.stop()
		all, err := x.records.Query(t.Context(), query.Query{Prefix: "/" + RecordsSpace, KeysOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := all.Rest()
		for _, e := range entries {
			if strings.Contains(e.Key, "news") {
				t.Errorf("%s is left when all pages are written", e.Key)
			}
		}
		if err != nil || len(entries) == 0 {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		x.stop = func() {}
	})
}

// copyOf returns a copy of what is kept.
func copyOf(t *testing.T, records ds.Datastore) ds.Datastore {
	t.Helper()
	all, err := records.Query(t.Context(), query.Query{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := all.Rest()
	if err != nil {
		t.Fatal(err)
	}
	kept := dssync.MutexWrap(ds.NewMapDatastore())
	for _, e := range entries {
		if err := kept.Put(t.Context(), ds.NewKey(e.Key), bytes.Clone(e.Value)); err != nil {
			t.Fatal(err)
		}
	}
	return kept
}

// slowRecords take no pages of proofs while they are slow, only what is new.
type slowRecords struct {
	ds.Datastore
	slow atomic.Bool
}

func (r *slowRecords) Put(ctx context.Context, key ds.Key, value []byte) error {
	if r.slow.Load() && !strings.Contains(key.String(), "news") {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.Datastore.Put(ctx, key, value)
}

// TestNewsAreKeptAtEnd: what changed just before a node ends is kept, though there is no time to write all pages.
func TestNewsAreKeptAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, fast)
		x := c.nodes[0]
		x.kill()
		records := &slowRecords{Datastore: x.records}
		x.records = records
		x.start()
		run(2 * params.Grace)
		s := x.service()
		root := c.pin(x, 1, 1000, 2)[0]
		news := func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			_, ok := s.news[root]
			return ok
		}
		for range 1000 {
			if news() {
				break
			}
			run(10 * time.Millisecond)
		}
		if !news() {
			t.Fatal("no holder of it is new")
		}
		records.slow.Store(true)
		x.kill()
		found := false
		for i := range s.batch {
			objs := proofsOf{}
			data, err := records.Get(t.Context(), newsKey(i))
			if err == nil {
				err = decodeKept(anyPage, data, objs)
			}
			if err != nil {
				t.Fatal(err)
			}
			found = found || len(objs[root]) > 0
		}
		if !found {
			t.Errorf("its holders are in none of %d batches", s.batch)
		}
		x.stop = func() {}
	})
}

// TestNewsAreBounded: however many objects change, a batch has a bounded number of them, and all pages are written
// before there are too many batches.
func TestNewsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowd(plan.DefaultParams(), 2*newsBatch+1)
	c.settleAll(t)
	if n := len(c.news); n != 2*newsBatch+1 {
		t.Fatalf("the holders of %d objects are new", n)
	}
	c.keepNews(t.Context())
	if len(c.news) != 0 || c.batch != 3 {
		t.Errorf("of %d objects there are %d batches, and %d objects are left", 2*newsBatch+1, c.batch, len(c.news))
	}
	for i := range 3 * maxBatches {
		c.news[crowdRoot(i%100)] = struct{}{}
		c.keepNews(t.Context())
		if c.batch > maxBatches {
			t.Fatalf("there are %d batches", c.batch)
		}
	}
}

// damage changes all that is kept.
func damage(t *testing.T, records ds.Datastore, how func([]byte) []byte) {
	t.Helper()
	all, err := records.Query(t.Context(), query.Query{Prefix: "/" + RecordsSpace})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := all.Rest()
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d pages are kept, %v", len(entries), err)
	}
	for _, e := range entries {
		if err := records.Put(t.Context(), ds.NewKey(e.Key), how(bytes.Clone(e.Value))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeptPages: a page is what was put in, bounded, and the same bytes for the same proofs.
func TestKeptPages(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	objs := proofsOf{}
	for i := range 1000 {
		root := b3.Root{3: byte(i), 4: byte(i >> 8)}
		for j := range 1 + i%3 {
			holder := plan.ID(bytes.Repeat([]byte{byte(j)}, 38))
			objs[root] = append(objs[root], plan.Proof{
				Holder: holder, Piece: plan.Piece(i % 65), At: at.Add(time.Duration(i) * time.Millisecond),
			})
		}
	}
	data, err := encodeKept(objs)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := encodeKept(objs); err != nil || !bytes.Equal(again, data) {
		t.Errorf("the second time it is another page, %v", err)
	}
	got := proofsOf{}
	if err := decodeKept(0, data, got); err != nil || len(got) != len(objs) {
		t.Fatalf("%d objects, %v", len(got), err)
	}
	for root, want := range objs {
		for i, p := range got[root] {
			if p.Holder != want[i].Holder || p.Piece != want[i].Piece || !p.At.Equal(want[i].At) {
				t.Fatalf("%s is %+v, was %+v", root, p, want[i])
			}
		}
	}
	if err := decodeKept(1, data, got); err == nil {
		t.Error("objects of another page are taken")
	}
	for n := range 100 {
		for i := range 1000 {
			holder := plan.ID([]byte{byte(i)})
			root := b3.Root{1: byte(n), 3: byte(i), 4: byte(i >> 8)}
			for range 32 {
				objs[root] = append(objs[root], plan.Proof{Holder: holder, At: at})
			}
		}
	}
	if data, err = encodeKept(objs); err != nil || len(data) > maxKept {
		t.Errorf("a page of %d bytes, %v", len(data), err)
	}
}

// FuzzKept: no page does harm.
func FuzzKept(f *testing.F) {
	good, err := encodeKept(proofsOf{b3.Root{1}: {{Holder: "a", At: time.UnixMilli(5)}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:len(good)-32])
	f.Fuzz(func(t *testing.T, text []byte) {
		sum := b3.Sum(text)
		objs := proofsOf{}
		if decodeKept(0, append(text, sum[:]...), objs) == nil {
			s := &Service{before: objs, p: params}
			for root := range objs {
				s.restore(&entry{Object: plan.NewObject(root, 1, time.Now())}, time.Now())
			}
		}
	})
}
