package upkeep

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dssync "github.com/ipfs/go-datastore/sync"

	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep/proofs"
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
		all, err := x.records.Query(t.Context(), query.Query{Prefix: "/" + proofs.Space, KeysOnly: true})
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
		proved := func() bool {
			o, err := s.Object(root, false)
			return err == nil && o.Observed == 2
		}
		for range 1000 {
			if proved() {
				break
			}
			run(10 * time.Millisecond)
		}
		if !proved() {
			t.Fatal("no holder of it is new")
		}
		records.slow.Store(true)
		x.kill()
		found := false
		proofs.New(records, slog.New(slog.DiscardHandler)).LoadBatches(t.Context(), func(batch proofs.Of) {
			found = found || len(batch[root]) > 0
		})
		if !found {
			t.Error("its holders are in no batch")
		}
		x.stop = func() {}
	})
}

// damage changes all that is kept.
func damage(t *testing.T, records ds.Datastore, how func([]byte) []byte) {
	t.Helper()
	all, err := records.Query(t.Context(), query.Query{Prefix: "/" + proofs.Space})
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
