package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"allium/internal/ipgroup"
)

func (t *Table) refusals(why refusal) int {
	return int(testutil.ToFloat64(t.m.refused.WithLabelValues(string(why))))
}

// snapshot is what a reader holds, and what it was when it was read.
type snapshot struct {
	held []*entry
	was  []peer.ID
}

func snapshotOf(b *bucket) snapshot {
	s := snapshot{held: b.load()}
	for _, e := range s.held {
		s.was = append(s.was, e.ID)
	}
	return s
}

func (s snapshot) changed() bool {
	return !slices.EqualFunc(s.held, s.was, func(e *entry, p peer.ID) bool { return e.ID == p })
}

// The invariants of the package, whatever answers, fails, moves and connects.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			K:          rapid.IntRange(1, 8).Draw(t, "k"),
			GroupShare: rapid.Float64Range(0.01, 1).Draw(t, "share"),
			StaleAfter: time.Duration(rapid.IntRange(1, 300).Draw(t, "stale")) * time.Second,
		}
		w := newWorld()
		table := newTable(t, cfg, w.deps())
		var read []snapshot
		var at time.Duration
		for range rapid.IntRange(1, 150).Draw(t, "events") {
			p := peer.ID(fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "peer")))
			at += time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				w.connect(p, rapid.Bool().Draw(t, "connected"))
			case 1:
				var addrs []string
				for range rapid.IntRange(0, 3).Draw(t, "addrs") {
					addrs = append(addrs, fmt.Sprintf("/ip4/8.%d.0.1/tcp/1", rapid.IntRange(0, 3).Draw(t, "group")))
				}
				w.place(p, addrs...)
			case 2:
				table.mute(at, p)
			default:
				b := table.bucketOf(keyOf(p))
				read = append(read, snapshotOf(b))
				before := b.find(keyOf(p))
				table.answer(at, p)
				if e := b.find(keyOf(p)); before == nil && e != nil && e.lastSeen() != at ||
					e != nil && e.fails.Load() != 0 {
					t.Fatalf("%s answered: %+v", p, e)
				}
			}
			invariants(t, table)
		}
		for _, s := range read {
			if s.changed() {
				t.Fatalf("a snapshot of %v is now %v", s.was, s.held)
			}
		}
	})
}

func invariants(t failer, table *Table) {
	t.Helper()
	once := map[peer.ID]bool{}
	for i := range table.buckets {
		groups := map[ipgroup.Group]int{}
		entries := table.buckets[i].load()
		if len(entries) > table.cfg.K {
			t.Fatalf("bucket %d has %d", i, len(entries))
		}
		for _, e := range entries {
			if once[e.ID] || e.Key != keyOf(e.ID) || min(table.self.CommonPrefix(e.Key), 31) != i {
				t.Fatalf("%s in bucket %d", e.ID, i)
			}
			once[e.ID] = true
			for _, g := range *e.groups.Load() {
				if groups[g]++; groups[g] > max(1, int(table.cfg.GroupShare*float64(table.cfg.K)+1e-9)) {
					t.Fatalf("%d of %s in bucket %d, K %d, share %v", groups[g], g, i,
						table.cfg.K, table.cfg.GroupShare)
				}
			}
		}
	}
}

func TestFullBucket(t *testing.T) {
	t.Parallel()
	cfg := Config{K: 3, GroupShare: 1, StaleAfter: time.Minute}
	ids := idsIn(0, 4)
	old, next := ids[:3], ids[3]
	const s = time.Second
	for name, test := range map[string]struct {
		before func(*Table, *world)
		at     time.Duration
		out    int // of old; -1: the newcomer is refused
	}{
		"all are well":               {func(*Table, *world) {}, 10 * s, -1},
		"shortly before it is stale": {func(*Table, *world) {}, 60*s - 1, -1},
		"it is stale":                {func(*Table, *world) {}, 60 * s, 0},
		"the longest silent is stale": {func(b *Table, _ *world) {
			b.answer(5*s, old[0])
		}, 61 * s, 1},
		"an answer makes it fresh": {func(b *Table, _ *world) {
			for _, p := range old {
				b.answer(50*s, p)
			}
		}, 100 * s, -1},
		"an older answer after a newer one": {func(b *Table, _ *world) {
			for _, p := range old {
				b.answer(50*s, p)
				b.answer(49*s, p)
			}
		}, 109 * s, -1},
		"one failed": {func(b *Table, w *world) {
			w.connect(old[2], true)
			b.mute(5*s, old[2])
		}, 10 * s, 2},
		"the last to fail, not the stalest": {func(b *Table, w *world) {
			w.connect(old[1], true)
			w.connect(old[2], true)
			b.mute(6*s, old[2])
			b.mute(5*s, old[1])
		}, 300 * s, 2},
		"an answer after the failure": {func(b *Table, w *world) {
			w.connect(old[2], true)
			b.mute(5*s, old[2])
			b.answer(6*s, old[2])
		}, 10 * s, -1},
	} {
		w := newWorld()
		table := newTable(t, cfg, w.deps())
		for i, p := range old {
			table.answer(time.Duration(i), p)
		}
		test.before(table, w)
		table.answer(test.at, next)
		for i, p := range old {
			if table.has(p) == (i == test.out) {
				t.Errorf("%s: entry %d is there: %v", name, i, table.has(p))
			}
		}
		if refused := test.out < 0; table.has(next) == refused || table.refusals(full) == 1 != refused {
			t.Errorf("%s: the newcomer is there: %v; %d are counted", name, table.has(next), table.refusals(full))
		}
	}
}

func TestFailed(t *testing.T) {
	t.Parallel()
	w := newWorld()
	table := newTable(t, numbers, w.deps())
	table.mute(0, "stranger")
	if table.Size() != 0 {
		t.Fatal("a failure adds a peer")
	}
	table.answer(1, "gone")
	table.mute(2, "gone")
	if table.has("gone") {
		t.Error("a peer that is not connected stays")
	}
	w.connect("there", true)
	table.answer(3, "there")
	for _, step := range []struct {
		answers bool
		fails   int // after it; -1: it is out
	}{{false, 1}, {false, 2}, {true, 0}, {false, 1}, {false, 2}, {false, -1}} {
		if step.answers {
			table.answer(4, "there")
		} else {
			table.mute(4, "there")
		}
		fails := -1
		for _, e := range table.Entries() {
			fails = e.Fails
		}
		if fails != step.fails {
			t.Fatalf("%d failures in a row, want %d", fails, step.fails)
		}
	}
}

// TestEclipse has 70 % of those who would get into a bucket come from one
// group, in any order, some of the time to places that became free.
func TestEclipse(t *testing.T) {
	t.Parallel()
	const from = ipgroup.Group("8.8.0.0/16")
	ids := idsIn(0, 400)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		w := newWorld()
		table := newTable(t, numbers, w.deps())
		b := &table.buckets[0]
		ids := slices.Clone(ids)
		for i, p := range ids {
			if i < len(ids)*7/10 {
				w.place(p, fmt.Sprintf("/ip4/8.8.%d.%d/udp/1/quic-v1", i/200, i%200))
			} else {
				w.place(p, fmt.Sprintf("/ip4/8.%d.0.1/tcp/1", 9+i%200))
			}
		}
		mixed := rapid.Bool().Draw(t, "mixed")
		if mixed { // else the attacker is first
			rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
		share := func() (n int) {
			for _, e := range b.load() {
				if slices.Contains(*e.groups.Load(), from) {
					n++
				}
			}
			return n
		}
		for i, p := range ids {
			table.answer(time.Duration(i)*time.Second, p)
			if entries := b.load(); rng.IntN(10) == 0 {
				table.mute(time.Duration(i)*time.Second, entries[rng.IntN(len(entries))].ID)
			}
			if n := share(); n > 8 {
				t.Fatalf("%d of one group", n)
			}
		}
		for _, p := range ids { // the others fill what is free
			table.answer(500*time.Second, p)
		}
		if len(b.load()) != 20 || share() > 8 {
			t.Fatalf("%d entries, %d of one group", len(b.load()), share())
		}
		if !mixed && table.refusals(diversity) == 0 {
			t.Fatalf("nobody was refused")
		}
		for _, p := range ids { // and once all have gone stale
			table.answer(time.Hour, p)
		}
		if n := share(); n > 8 {
			t.Fatalf("%d of one group", n)
		}
	})
}

// A newcomer of a group that has its share may take the place of one of them.
func TestCrowdedCountsWithoutTheOneThatYields(t *testing.T) {
	t.Parallel()
	w := newWorld()
	table := newTable(t, Config{K: 2, GroupShare: 0.5, StaleAfter: time.Minute}, w.deps())
	ids := idsIn(0, 3)
	for _, p := range ids[1:] {
		w.place(p, "/ip4/8.8.8.8/tcp/1")
		w.connect(p, true)
	}
	table.answer(0, ids[0])
	table.answer(0, ids[1])
	table.mute(1, ids[1])
	table.answer(2, ids[2])
	if table.has(ids[1]) || !table.has(ids[2]) || !table.has(ids[0]) {
		t.Errorf("%+v", table.Entries())
	}
}

func TestNoAddress(t *testing.T) {
	t.Parallel()
	w := newWorld()
	table := newTable(t, numbers, w.deps())
	w.place("p")
	table.answer(0, "p")
	if table.Size() != 0 || table.refusals(noAddress) != 1 {
		t.Errorf("%d peers, %d refused", table.Size(), table.refusals(noAddress))
	}
	w.place("p", "/ip4/8.8.8.8/tcp/1")
	table.answer(0, "p")
	w.place("p") // forgotten, which is not a reason to let a peer go that answers
	table.answer(time.Hour, "p")
	if e := table.Entries(); len(e) != 1 || !slices.Equal(e[0].Groups, []ipgroup.Group{"8.8.0.0/16"}) {
		t.Errorf("%+v", e)
	}
}

// A peer is grouped by where it is, not by where it was when it came.
func TestRegroup(t *testing.T) {
	t.Parallel()
	w := newWorld()
	table := newTable(t, Config{K: 4, GroupShare: 0.5, StaleAfter: time.Hour}, w.deps())
	ids := idsIn(0, 4)
	for i, p := range ids {
		w.place(p, fmt.Sprintf("/ip4/8.%d.0.1/tcp/1", i))
		table.answer(0, p)
	}
	for _, p := range ids { // one after the other they turn out to be neighbours
		w.place(p, "/ip4/9.9.9.9/tcp/1")
	}
	for _, p := range ids {
		table.answer(regroupAfter-1, p)
	}
	if table.Size() != 4 || table.Entries()[0].Groups[0] != "8.0.0.0/16" {
		t.Fatalf("looked at too soon: %+v", table.Entries())
	}
	for _, p := range ids {
		table.answer(regroupAfter, p)
	}
	if table.Size() != 2 || !table.has(ids[0]) || !table.has(ids[1]) || table.refusals(diversity) != 2 {
		t.Errorf("%+v, %d refused", table.Entries(), table.refusals(diversity))
	}
	w.place(ids[0], "/ip4/8.8.8.8/tcp/1")
	table.answer(2*regroupAfter-1, ids[0])
	for _, e := range table.Entries() {
		if !slices.Equal(e.Groups, []ipgroup.Group{"9.9.0.0/16"}) {
			t.Errorf("%+v", e)
		}
	}
}
