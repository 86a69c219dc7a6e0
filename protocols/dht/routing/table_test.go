package routing

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/limits"
	"allium/protocols/status"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Config, *Deps){
		"K 0":          func(c *Config, _ *Deps) { c.K = 0 },
		"K 257":        func(c *Config, _ *Deps) { c.K = 257 },
		"share 0":      func(c *Config, _ *Deps) { c.GroupShare = 0 },
		"share 1.1":    func(c *Config, _ *Deps) { c.GroupShare = 1.1 },
		"share NaN":    func(c *Config, _ *Deps) { c.GroupShare = math.NaN() },
		"StaleAfter 0": func(c *Config, _ *Deps) { c.StaleAfter = 0 },
		"no Self":      func(_ *Config, d *Deps) { d.Self = "" },
		"no Addrs":     func(_ *Config, d *Deps) { d.Addrs = nil },
		"no Connected": func(_ *Config, d *Deps) { d.Connected = nil },
	} {
		cfg, deps := numbers, newWorld().deps()
		spoil(&cfg, &deps)
		if _, err := New(cfg, deps); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGroupCap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		k     int
		share float64
		want  int
	}{{20, 0.4, 8}, {1, 0.4, 1}, {4, 0.4, 1}, {5, 0.4, 2}, {100, 0.29, 29}, {20, 1, 20}, {20, 0.001, 1}} {
		if got := (Config{K: test.k, GroupShare: test.share}).GroupCap(); got != test.want {
			t.Errorf("%v of %d: %d, want %d", test.share, test.k, got, test.want)
		}
	}
}

// start runs table until the returned function is called, which waits for the
// end, or to the end of the test.
func start(t testing.TB, table *Table) (stop func()) {
	t.Helper()
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if err := table.Run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	}()
	<-ready
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// TestPanicLosesOneUpdate: a change that panics is dropped, and the writer of its bucket goes on.
func TestPanicLosesOneUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deps := newWorld().deps()
		addrs := deps.Addrs
		deps.Addrs = func(p peer.ID) []ma.Multiaddr {
			if p == "bad" {
				panic("as told")
			}
			return addrs(p)
		}
		table := newTable(t, numbers, deps)
		start(t, table)
		for _, p := range []peer.ID{"bad", "a", "bad", "b", "c"} {
			table.Seen(t.Context(), p, 0)
			synctest.Wait()
		}
		if n := table.Size(); n != 3 {
			t.Errorf("the table has %d of 3 peers", n)
		}
	})
}

func TestUpdatesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		table := newTable(t, numbers, w.deps())
		start(t, table)
		begin := time.Now()
		for _, p := range []peer.ID{"a", "b", self, "c"} {
			table.Seen(t.Context(), p, 0)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		w.connect("c", true)
		table.Seen(t.Context(), "a", 60*time.Millisecond)
		table.Seen(t.Context(), "a", 140*time.Millisecond)
		table.Seen(t.Context(), "a", 0)
		table.Seen(t.Context(), "a", -time.Second)
		table.Failed(t.Context(), "b")
		table.Failed(t.Context(), "c")
		synctest.Wait()
		got := map[peer.ID]Entry{}
		for _, e := range table.Entries() {
			got[e.ID] = e
		}
		a, c := got["a"], got["c"]
		if len(got) != 2 || table.Size() != 2 {
			t.Fatalf("%+v", got)
		}
		if !a.Added.Equal(begin) || !a.Seen.Equal(begin.Add(time.Minute)) ||
			a.RTT != 70*time.Millisecond || a.Fails != 0 {
			t.Errorf("%+v", a)
		}
		if !c.Seen.Equal(begin) || c.RTT != 0 || c.Fails != 1 || c.Bucket != keyOf(self).CommonPrefix(keyOf("c")) {
			t.Errorf("%+v", c)
		}
	})
}

// TestFullQueue: an update waits for 100 ms, or less if its context says so, is
// dropped and counted; other buckets do not notice.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, other := idsIn(0, 2000), idsIn(1, 1)[0]
		w := newWorld()
		deps := w.deps()
		let := make(chan struct{})
		addrs := deps.Addrs
		deps.Addrs = func(p peer.ID) []ma.Multiaddr {
			if keyOf(self).CommonPrefix(keyOf(p)) == 0 {
				<-let
			}
			return addrs(p)
		}
		deps.Limits = limits.NewRegistry(nil)
		table := newTable(t, Config{K: 256, GroupShare: 0.4, StaleAfter: time.Hour}, deps)
		start(t, table)
		if i := deps.Limits.Snapshot()[0]; i.Name != "dht.route" || i.Kind != limits.KindQueue || i.Capacity != 1024 ||
			i.Current != 0 {
			t.Errorf("%+v", i)
		}
		begin := time.Now()
		table.Seen(t.Context(), stuck[0], 0) // the writer has it
		synctest.Wait()
		for _, p := range stuck[1 : 1+queueSize] {
			table.Seen(t.Context(), p, 0)
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("waited %s with room", d)
		}
		table.Seen(t.Context(), stuck[1500], 0)
		if d := time.Since(begin); d != sendTimeout {
			t.Errorf("waited %s", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		table.Failed(ctx, stuck[1501])
		if d := time.Since(begin); d != sendTimeout+30*time.Millisecond {
			t.Errorf("waited %s in all", d)
		}
		table.Seen(t.Context(), other, 0)
		synctest.Wait()
		if d := time.Since(begin); d != sendTimeout+30*time.Millisecond || !table.has(other) {
			t.Error("another bucket waits as well")
		}
		if n := testutil.ToFloat64(table.m.dropped); n != 2 {
			t.Errorf("%v are counted", n)
		}
		if i := deps.Limits.Snapshot()[0]; i.Current != 1024 || i.Rejected != 1 {
			t.Errorf("%+v", i)
		}
		close(let)
		synctest.Wait()
		if n := table.Size(); n != 257 || deps.Limits.Snapshot()[0].Current != 0 ||
			table.refusals(full) != 1+queueSize-256 {
			t.Errorf("%d peers, %d refused", n, table.refusals(full))
		}
	})
}

// TestEnd: Run ends every writer, what comes after is dropped and does not
// wait, what is there can be read; and it may run again, but not twice.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, numbers, newWorld().deps())
		table.Seen(t.Context(), "early", 0)
		stop := start(t, table)
		if err := table.Run(t.Context(), func() { t.Error("ready twice") }); status.Of(err) != status.Internal {
			t.Errorf("a second Run: %v", err)
		}
		for i := range 100 {
			table.Seen(t.Context(), peer.ID(fmt.Sprint(i)), time.Millisecond)
		}
		synctest.Wait()
		stop()
		size, begin := table.Size(), time.Now()
		for i := range 3 * queueSize {
			table.Seen(t.Context(), peer.ID(fmt.Sprint("late", i)), 0)
			table.Failed(t.Context(), "1")
		}
		if d := time.Since(begin); d != 0 {
			t.Errorf("updates wait %s after the end", d)
		}
		if n := testutil.ToFloat64(table.m.dropped); n != 1+6*queueSize {
			t.Errorf("%v are counted", n)
		}
		if size == 0 || table.Size() != size || len(table.Nearest(keyOf("x"), size)) != size ||
			table.HedgeAfter("1", time.Second) == time.Second {
			t.Errorf("%d peers, %d before the end", table.Size(), size)
		}
		start(t, table)
		table.Failed(t.Context(), "1")
		synctest.Wait()
		if table.has("1") {
			t.Error("it does not run again")
		}
	})
}

// TestSingleWriter: nobody but one writer works on a bucket at any time, also
// when its first updates come at once and when the table runs again. The race
// detector judges the fields that are the writer's alone.
func TestSingleWriter(t *testing.T) {
	t.Parallel()
	var at [bucketCount]atomic.Int32
	var calls atomic.Int64
	var table *Table
	alone := func(p peer.ID) {
		n := &at[min(table.self.CommonPrefix(keyOf(p)), bucketCount-1)]
		if n.Add(1) != 1 {
			t.Error("two writers in one bucket")
		}
		calls.Add(1)
		runtime.Gosched()
		n.Add(-1)
	}
	w := newWorld()
	deps := w.deps()
	addrs, connected := deps.Addrs, deps.Connected
	deps.Addrs = func(p peer.ID) []ma.Multiaddr { alone(p); return addrs(p) }
	deps.Connected = func(p peer.ID) bool { alone(p); return connected(p) }
	table = newTable(t, Config{K: 8, GroupShare: 0.4, StaleAfter: 1}, deps)
	for i := range 200 {
		w.connect(peer.ID(fmt.Sprint(i)), i%2 == 0)
	}
	for round := range 3 {
		stop := start(t, table)
		var producers sync.WaitGroup
		for who := range 8 {
			producers.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(who)))
				for range 300 {
					p := peer.ID(fmt.Sprint(rng.IntN(200)))
					if rng.IntN(3) == 0 {
						table.Failed(t.Context(), p)
					} else {
						table.Seen(t.Context(), p, time.Millisecond)
					}
					table.Nearest(keyOf(p), 20)
					table.HedgeAfter(p, time.Second)
				}
			})
		}
		if round > 0 { // and while it ends
			stop()
		}
		producers.Wait()
		stop()
	}
	if calls.Load() == 0 {
		t.Error("no writer did anything")
	}
	invariants(t, table)
}
