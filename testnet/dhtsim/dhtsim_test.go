package dhtsim

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"allium/protocols/status"
)

// The goals of SPEC §5 on a network that a test has time for;
// ALLIUM_SIM_NODES=full is the real size.
func TestGoals(t *testing.T) {
	t.Parallel()
	o := Options{Nodes: 1000, Lookups: 5000, Churn: 0.1, Dead: 0.2, Seed: 7}
	if os.Getenv("ALLIUM_SIM_NODES") == "full" {
		o.Nodes, o.Lookups = 10_000, 100_000
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	if r.Hops.P50 > 2 || r.Hops.P95 > 3 || r.Hops.P99 > 4 {
		t.Errorf("hops %+v, want p50 ≤ 2, p95 ≤ 3, p99 ≤ 4", r.Hops)
	}
	if r.Success < 0.999 {
		t.Errorf("success %g, want 99.9 %%", r.Success)
	}
	if r.Recovery == nil || r.Recovery.Seconds < 0 || len(r.Recovery.Windows) != windows {
		t.Errorf("recovery %+v, want 99 %% again within 300 s", r.Recovery)
	}
	if got := r.tally.lookups; got < o.Lookups*99/100 || got > o.Lookups {
		t.Errorf("%d lookups counted, of %d", got, o.Lookups)
	}
}

// A seed is a run; another seed is another.
func TestSeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) string {
		r, err := Run(t.Context(), Options{Nodes: 200, Lookups: 500, Churn: 0.5, Dead: 0.3, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := errors.Join(json.NewEncoder(&out).Encode(r), r.WriteText(&out), r.WriteSVG(&out)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := run(1)
	if again := run(1); again != first {
		t.Errorf("the same seed gave\n%s\nthen\n%s", first, again)
	}
	if other := run(2); other == first {
		t.Error("another seed gave the same")
	}
}

// The simulation can tell a network that fails from one that does not.
func TestSuccessCanFail(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Options{Nodes: 500, Lookups: 1000, Churn: 10, Dead: 0.9, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Success > 0.99 {
		t.Errorf("success %g with ten times the network gone in an hour and nobody who republishes", r.Success)
	}
}

// The smallest network under the worst of all comes to an end.
func TestTiny(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		if _, err := Run(t.Context(), Options{Nodes: 50, Lookups: 100, Churn: 10, Dead: 0.9, Seed: seed}); err != nil {
			t.Fatal(err)
		}
	}
}

// nearest agrees with sorting all of a table.
func TestNearest(t *testing.T) {
	t.Parallel()
	w := newWorld(Options{Nodes: 2000, Lookups: 1, Seed: 3})
	for range 500 {
		n := &w.nodes[w.anybody()]
		target := w.rng.Uint64()
		var all []int32
		for _, b := range n.buckets {
			all = append(all, b...)
		}
		slices.SortFunc(all, func(a, b int32) int {
			if w.nodes[a].place^target < w.nodes[b].place^target {
				return -1
			}
			return 1
		})
		if got := w.nearest(n, target); !slices.Equal(got, all[:bucketSize]) {
			t.Fatalf("nearest %v, want %v", got, all[:bucketSize])
		}
		kth := w.kth(target)
		closer := 0
		for _, id := range w.live {
			if w.nodes[id].place^target <= kth {
				closer++
			}
		}
		if closer != bucketSize {
			t.Fatalf("%d nodes within the k-th distance", closer)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	good := Options{Nodes: 50, Lookups: 1}
	for _, spoil := range []func(*Options){
		func(o *Options) { o.Nodes = 49 },
		func(o *Options) { o.Nodes = 100_001 },
		func(o *Options) { o.Lookups = 0 },
		func(o *Options) { o.Churn = -0.1 },
		func(o *Options) { o.Churn = math.NaN() },
		func(o *Options) { o.Dead = 1 },
	} {
		o := good
		spoil(&o)
		if _, err := Run(t.Context(), o); status.Of(err) != status.BadRequest {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, good); status.Of(err) != status.Canceled {
		t.Errorf("canceled: %v", err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), Options{Nodes: 100, Lookups: 100, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var shape struct {
		Hops    map[string]int `json:"hops"`
		RPCs    map[string]int `json:"rpcs"`
		Success float64        `json:"success"`
		Seed    int            `json:"seed"`
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&shape); err != nil || len(shape.Hops) != 4 || len(shape.RPCs) != 2 || shape.Success != 1 ||
		shape.Seed != 7 {
		t.Errorf("%s: %v", out, err)
	}
	var svg bytes.Buffer
	if err := r.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&svg); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := Run(b.Context(), Options{Nodes: 1000, Lookups: 1000, Churn: 0.1, Seed: 7}); err != nil {
			b.Fatal(err)
		}
	}
}
