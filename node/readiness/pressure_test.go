package readiness

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/limits"
)

// queueAt is a queue of 1000 places that is so many tenths of a percent full.
func queueAt(current int64) []limits.Info {
	return []limits.Info{{Name: "q", Kind: limits.KindQueue, Capacity: 1000, Current: current}}
}

// TestPressureTable walks every transition of the table: it is taken when its
// condition has held for its time, not a look earlier, and not when the
// condition was interrupted.
func TestPressureTable(t *testing.T) {
	// How a queue gets into each state: how full it is for how long.
	into := map[admits][]int64{admitsAll: nil, admitsReads: {800}, admitsNone: {950}}
	for _, tr := range transitions {
		inside, outside := int64(tr.when.atLeast*10), int64(tr.when.atLeast*10-1)
		if tr.when.below > 0 {
			inside, outside = int64(tr.when.below*10-1), int64(tr.when.below*10)
		}
		t.Run(fmt.Sprintf("%d to %d", tr.from, tr.to), func(t *testing.T) {
			now := time.Now()
			p := NewPressure(nil, nil)
			state := func() admits { return p.queues["q"].state }
			at := func(current int64, d time.Duration) {
				for end := now.Add(d); !now.After(end); now = now.Add(pressureEvery) {
					p.look(queueAt(current), now)
				}
			}
			at(0, 0)
			for _, full := range into[tr.from] {
				at(full, time.Second)
			}
			at(600, time.Second)
			if state() != tr.from {
				t.Fatalf("at 60 %% it went from %d to %d", tr.from, state())
			}
			at(inside, tr.last-pressureEvery)
			if state() != tr.from {
				t.Errorf("it is %d before %s have passed", state(), tr.last)
			}
			at(outside, 0)
			at(inside, tr.last-pressureEvery)
			if state() != tr.from {
				t.Errorf("it is %d, and the condition was interrupted", state())
			}
			at(inside, 0)
			if state() != tr.to {
				t.Errorf("it is %d after %s", state(), tr.last)
			}
		})
	}
}

// TestPressureTableIsTheSpec: every state is left, nothing is skipped on the
// way down, and both halves come back at once.
func TestPressureTableIsTheSpec(t *testing.T) {
	want := []transition{
		{admitsAll, fill{atLeast: 80}, time.Second, admitsReads},
		{admitsReads, fill{atLeast: 95}, time.Second, admitsNone},
		{admitsReads, fill{below: 50}, 500 * time.Millisecond, admitsAll},
		{admitsNone, fill{below: 50}, 500 * time.Millisecond, admitsAll},
	}
	if !slices.Equal(transitions, want) {
		t.Errorf("the table is %+v", transitions)
	}
}

// TestPressureGates: writes fail first, the gates name the queue and what must
// be free of it, and readiness follows a queue that fills and empties.
func TestPressureGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		registry := limits.NewRegistry(reg)
		q := limits.NewQueue[int](registry, limits.Spec{Name: "work"}, 100)
		for name, l := range lenient { // full for good, and of no interest
			if l.worst == admitsAll {
				_ = limits.NewQueue[int](registry, limits.Spec{Name: name}, 1).TryPut(1)
			}
		}
		p := NewPressure(registry, reg)
		b := NewBoard(Gate{Name: "pressure_writes", Scope: Writes, Check: p.Writes},
			Gate{Name: "pressure_reads", Check: p.Reads})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			if err := p.Run(ctx, func() {}); err != nil {
				t.Error(err)
			}
		})
		fill := func(n int) {
			for q.Len() < n {
				_ = q.TryPut(1)
			}
			for q.Len() > n {
				q.TryGet()
			}
		}
		for _, step := range []struct {
			name          string
			full          int
			after         time.Duration
			reads, writes bool
		}{
			{"empty", 0, time.Second, true, true},
			{"just full", 100, 900 * time.Millisecond, true, true},
			{"a short burst is over", 79, time.Second, true, true},
			{"nearly full", 80, 1200 * time.Millisecond, true, false},
			{"between", 60, time.Minute, true, false},
			{"full", 95, 1200 * time.Millisecond, false, false},
			{"between again", 50, time.Minute, false, false},
			{"empty for a moment", 49, 400 * time.Millisecond, false, false},
			{"empty for long enough", 49, 200 * time.Millisecond, true, true},
			{"full at once", 100, 1600 * time.Millisecond, false, false},
		} {
			fill(step.full)
			time.Sleep(step.after)
			synctest.Wait()
			r := b.Report()
			if r.Reads != step.reads || r.Writes != step.writes {
				t.Errorf("%s: %+v", step.name, r)
			}
			state := 0
			for _, g := range r.Gates {
				if !g.Ready {
					state++
				}
				if !g.Ready && (!strings.Contains(g.Fix, "work") || g.Need != 51 || g.Have > 50 || g.RetryAfter != 1) {
					t.Errorf("%s: %+v", step.name, g)
				}
			}
			if err := testutil.GatherAndCompare(reg,
				strings.NewReader(fmt.Sprintf(
					"# HELP pressure_state What nearly full queues keep the node from: 0 nothing, 1 "+
						"writes, 2 reads too.\n# TYPE pressure_state gauge\npressure_state %d\n", state)),
				"pressure_state"); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
		}
		cancel()
		run.Wait()
	})
}

// TestPressureSoon: when a rate begins to refuse all its clients, the gates shut little more than a second later, at
// whatever time after the last look that is.
func TestPressureSoon(t *testing.T) {
	for late := range 12 {
		synctest.Test(t, func(t *testing.T) {
			registry := limits.NewRegistry(nil)
			rate := limits.NewFairRate[int](registry, limits.Spec{Name: "rate"}, limits.Spec{},
				limits.FairRateConfig{PerSecond: 1, Burst: 1, Wait: time.Second})
			p := NewPressure(registry, nil)
			ctx, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			run.Go(func() {
				if err := p.Run(ctx, func() {}); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(3*time.Second + time.Duration(late)*pressureEvery)
			for range 13 {
				for client := range 8 {
					_, _ = rate.Enter(client) // but for the first all are refused
				}
				time.Sleep(pressureEvery)
			}
			if p.Writes().Ready() || p.Reads().Ready() {
				t.Errorf("%d looks later it still is ready", late)
			}
			cancel()
			run.Wait()
		})
	}
}

// TestPressureOfLines: the line before a gate counts as a queue does, and one
// that is lenient shuts no more than it may.
func TestPressureOfLines(t *testing.T) {
	for name, want := range map[string]admits{
		"dht.work": admitsNone, "store.puts": admitsReads, "dht.dials": admitsAll, "edge.work": admitsAll,
	} {
		p := NewPressure(nil, nil)
		now := time.Now()
		for range 12 {
			p.look([]limits.Info{
				{Name: name, Kind: limits.KindGate, Capacity: 8, Current: 8, Waiting: 512, MaxWaiting: 512},
				{Name: "no line", Kind: limits.KindGate, Capacity: 8, Current: 8},
				{Name: "bytes", Kind: limits.KindBudget, Capacity: 8, Current: 8},
			}, now)
			now = now.Add(pressureEvery)
		}
		if w, r := p.Writes().Ready(), p.Reads().Ready(); w != (want < admitsReads) || r != (want < admitsNone) {
			t.Errorf("%s: writes %v, reads %v", name, w, r)
		}
	}
}

// TestPressureAfterAReload: a queue is as full as its size is now.
func TestPressureAfterAReload(t *testing.T) {
	p, now := NewPressure(nil, nil), time.Now()
	for _, capacity := range []int64{1000, 100} {
		p.look([]limits.Info{{Name: "q", Kind: limits.KindQueue, Capacity: capacity, Current: 96}}, now)
	}
	p.look([]limits.Info{{Name: "q", Kind: limits.KindQueue, Capacity: 100, Current: 96}}, now.Add(time.Second))
	if r := p.Reads(); r.Ready() || r.Need != 51 || r.Have != 4 {
		t.Errorf("a queue that is full since it has shrunk: %+v", r)
	}
}

// TestLenientAreQueues: a name that no limit has would go unnoticed, and the
// queue it means would shut the node.
func TestLenientAreQueues(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{"../../protocols", "../../store", "../../resolver", "../../gateway", ".."} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			src, err := os.ReadFile(name)
			code.Write(src)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, l := range lenient {
		named := regexp.MustCompile(`Name: +"` + regexp.QuoteMeta(name) + `"`)
		if !named.MatchString(code.String()) || l.why == "" {
			t.Errorf("%q is the name of no limit, or nobody says why it is lenient", name)
		}
	}
}
