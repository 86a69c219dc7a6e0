package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// TestAbandonedOverStreams: 10,000 lookups over real streams whose callers leave after up to 3 ms.
// No goroutine, no place of a limit and no entry of the ring's running part is left of them, on the
// node that asked and on those that were asked.
func TestAbandonedOverStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	seed := start(t, nil)
	nodes := []*running{seed, start(t, joining(seed)), start(t, joining(seed)), start(t, joining(seed))}
	asker := nodes[len(nodes)-1]
	testkit.Eventually(t, "a routing table", func() bool { return metric(t, asker, "dht_table_peers") >= 3 })
	before, err := taken(t.Context(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	const lookups, atOnce = 10_000, 64
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range lookups {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(3*time.Millisecond))))
			defer cancel()
			key := b3.Sum(fmt.Append(nil, "abandoned ", i)).String()
			if a, err := asker.api.Resolve(ctx, key, api.Query{}); err == nil {
				return fmt.Errorf("%s has %+v", key, a)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	began := metric(t, asker, "index_cache_misses_total")
	t.Logf("%d lookups began", began)
	if began < lookups/100 {
		t.Errorf("only %d of %d lookups began", began, lookups)
	}
	asker.api.Close() // its idle connections
	var still string  // what is taken longer than others
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(still)
		}
	})
	testkit.Eventually(t, "the places that were free before", func() bool {
		now, err := taken(t.Context(), nodes)
		if err != nil { // the connections of calls that were given up may still take all places of the socket
			still = err.Error()
			return false
		}
		for place, n := range now {
			if n > before[place] {
				still = fmt.Sprintf("%s: %d are taken, %d before", place, n, before[place])
				return false
			}
		}
		n := metric(t, asker, `trace_ring_entries{part="running"}`)
		still = fmt.Sprintf("%d lookups are recorded as running", n)
		return n == 0
	})
	const ofSessions = 80 // goroutines: at most six pairs of nodes keep a session for a while
	testkit.Eventually(t, "the goroutines of before", func() bool {
		return runtime.NumGoroutine() <= goroutines+ofSessions
	})
	t.Logf("%d goroutines, before %d", runtime.NumGoroutine(), goroutines)
}

// taken returns what is taken of each limit of each node, but for sessions, which two nodes keep
// for a while, and budgets: what is remembered of lookups that ended before they were given up.
func taken(ctx context.Context, nodes []*running) (map[string]int64, error) {
	places := map[string]int64{}
	for i, n := range nodes {
		all, err := n.api.Limits(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range all.Limits {
			if l.Name == "session.sessions" || l.Kind == "budget" {
				continue
			}
			places[fmt.Sprintf("node %d: %s", i, l.Name)] = l.Current
		}
	}
	return places, nil
}
