package lookup

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/dht/namestore"
	"allium/protocols/name"
	"allium/protocols/status"
)

// TestHighestWins: whatever records come, by gossip or by lookups, in any order and any number of
// times, a node has the highest sequence number that it saw. Two values with that number are an
// equivocation for whoever saw both, and for nobody else. Two nodes that saw different halves agree
// when each has seen the records of the other.
func TestHighestWins(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var plan []sight
		record := rapid.IntRange(0, 7)
		var seen [2][]int
		for node := range seen { // each half of the network, while it is cut
			seen[node] = rapid.SliceOfN(record, 1, 8).Draw(rt, "records")
			for _, i := range seen[node] {
				plan = append(plan, sight{node, i, rapid.Bool().Draw(rt, "by gossip")})
			}
		}
		for node := range seen { // the cut is mended: each sees what the other has, in any order
			for _, i := range rapid.Permutation(seen[1-node]).Draw(rt, "order") {
				plan = append(plan, sight{node, i, rapid.Bool().Draw(rt, "by gossip")})
			}
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = see(t, plan) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// sight is a record that one of two nodes sees, by gossip or by a lookup.
type sight struct {
	node, record int
	gossip       bool
}

// see lets two nodes see records, and checks after each what they say of the name.
func see(t *testing.T, plan []sight) error {
	var all []name.Signed // two of each number
	for i := range uint64(8) {
		all = append(all, signed(t, "blog", 1+i/2, fmt.Sprint("value ", i)))
	}
	nodes := []*rig{newRig(t), newRig(t)}
	seen := []map[int]bool{{}, {}}
	for step, s := range plan {
		n := nodes[s.node]
		if s.gossip {
			n.Observe(all[s.record], false)
		} else {
			n.set(all[s.record])
			_, _ = n.resolve(t, "blog", Options{Fresh: true}) // the answer is checked below
		}
		seen[s.node][s.record] = true
		highest, values := uint64(0), 0
		for i := range seen[s.node] {
			switch seq := all[i].Seq; {
			case seq > highest:
				highest, values = seq, 1
			case seq == highest:
				values++
			}
		}
		a, err := n.resolve(t, "blog", Options{})
		if len(a.Chain) != 1 || a.Chain[0].Seq != highest || (status.Of(err) == status.Equivocation) != (values > 1) {
			return fmt.Errorf("step %d of %v: node %d says %v, %w; the highest number is %d, with %d values",
				step, plan, s.node, a.Chain, err, highest, values)
		}
	}
	return nil
}

// TestHighestWinsAtOnce: of records that arrive at the same moment, in any order, the highest stays.
func TestHighestWinsAtOnce(t *testing.T) {
	const records, rounds = 8, 3000
	var all []name.Signed
	for seq := range uint64(records) {
		all = append(all, signed(t, "blog", seq+1, "value"))
	}
	for range rounds {
		r := New(Config{Deadline: time.Second, Lookups: 1}, Deps{Finder: &network{}, Seen: namestore.NewSeen(false)})
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for _, rec := range all {
			wg.Go(func() {
				<-begin
				r.Observe(rec, false)
			})
		}
		close(begin)
		wg.Wait()
		if f, ok := r.seen.Get(all[0].Name); !ok || f.Versions.Seq() != records {
			t.Fatalf("the name has the number %d, and %d arrived", f.Versions.Seq(), records)
		}
	}
}

// TestAbandonedNames: of 10,000 lookups that nobody waits for any more, no goroutine and no entry is left
// when their deadline has passed.
func TestAbandonedNames(t *testing.T) {
	_, z := zone(t)
	label, err := name.ParseLabel("blog")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.took = time.Hour
		const lookups, atOnce = 10_000, 500
		cfg := *r.cfg.Load()
		cfg.Lookups = atOnce
		r.Names = New(cfg, Deps{Finder: r.network, Seen: namestore.NewSeen(false)})
		for i := 0; i < lookups; i += atOnce {
			ctx, cancel := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			for k := range atOnce {
				what := name.Name{Label: label, Zone: z}
				what.Zone[0], what.Zone[1] = byte(i+k), byte((i+k)>>8)
				callers.Go(func() {
					if _, err := r.Resolve(ctx, r.tasks, what, Options{}, nil); status.Of(err) != status.Canceled {
						t.Errorf("lookup %d: %v", i+k, err)
					}
				})
			}
			synctest.Wait()
			cancel()
			callers.Wait()
			time.Sleep(r.cfg.Load().Deadline)
		}
		r.tasks.wg.Wait() // no goroutine
		if n := len(r.active); n != 0 {
			t.Errorf("%d lookups are left", n)
		}
		if n := r.seen.Bytes(); n != 0 {
			t.Errorf("%d bytes are remembered of names of which nothing is known", n)
		}
	})
}
