package fetchsim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/schedule"
)

// usual is what a test has time for.
func usual() Options {
	return Options{
		Transfers: 10, Providers: 40, AtOnce: 4, Size: 128 << 20, Rate: 10 << 20, RTT: 50 * time.Millisecond, Seed: 7,
	}
}

func run(t *testing.T, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	return r
}

// What a transfer owes among providers of every kind: it ends, what came twice is
// bounded, and those that are slow, silent or lie cost little.
func TestGoals(t *testing.T) {
	t.Parallel()
	good := run(t, usual())
	bad := usual()
	bad.Silent, bad.Lies, bad.Loss = 0.2, 0.1, 0.1
	hard := run(t, bad)
	for _, r := range []Report{good, hard} {
		if r.Success != 1 {
			t.Errorf("success %g", r.Success)
		}
		if r.Twice > 1.0/16+4.0/128 {
			t.Errorf("%g of the bytes came twice", r.Twice)
		}
	}
	if hard.Took.P50 > 3*good.Took.P50 {
		t.Errorf("it takes %d ms where some are silent, lie or fail, %d ms where all are honest", hard.Took.P50,
			good.Took.P50)
	}
	if good.Efficiency.P50 < 0.9 || hard.Efficiency.P50 < 0.6 {
		t.Errorf("efficiency %+v, %+v", good.Efficiency, hard.Efficiency)
	}
	if good.Lies != 0 || hard.Lies == 0 {
		t.Errorf("%d and %d lies", good.Lies, hard.Lies)
	}
}

// A provider that is alone is used to the full, but for the first round trips.
func TestOneProvider(t *testing.T) {
	t.Parallel()
	o := usual()
	o.Providers, o.AtOnce = 1, 1
	if r := run(t, o); r.Efficiency.P50 < 0.95 || r.Twice > 0 {
		t.Errorf("%+v", r)
	}
}

// One provider alone is kept as busy as by one request for everything, with few
// requests.
func TestOneProviderIsNeverIdle(t *testing.T) {
	t.Parallel()
	o := usual()
	o.Size = 2000 * b3.GroupSize
	w := newWorld(o, rand.New(rand.NewPCG(1, 1)))
	w.all = []*provider{{rtt: 20 * time.Millisecond, groupTime: 500 * time.Microsecond}}
	if err := w.run(t.Context()); err != nil || w.end != schedule.Done {
		t.Fatal(w.end, err)
	}
	if took := w.now - foundEvery; took > 1050*time.Millisecond {
		t.Errorf("took %s, one request needs 1.02s", took)
	}
	if w.asked > 12 || w.extra > 0 {
		t.Errorf("%d requests, %d groups came twice", w.asked, w.extra)
	}
}

// A seed is a run; another seed is another.
func TestSeed(t *testing.T) {
	t.Parallel()
	play := func(seed uint64) string {
		o := usual()
		o.Transfers, o.Silent, o.Lies, o.Loss, o.Seed = 3, 0.2, 0.1, 0.2, seed
		r := run(t, o)
		var out bytes.Buffer
		if err := errors.Join(json.NewEncoder(&out).Encode(r), r.WriteText(&out)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := play(1)
	if again := play(1); again != first {
		t.Errorf("the same seed gave\n%s\nthen\n%s", first, again)
	}
	if other := play(2); other == first {
		t.Error("another seed gave the same")
	}
}

// The simulation can tell a transfer that fails from one that does not.
func TestSuccessCanFail(t *testing.T) {
	t.Parallel()
	o := usual()
	o.Lies = 1
	if r := run(t, o); r.Success != 0 || r.Lies != o.Providers*o.Transfers {
		t.Errorf("%+v", r)
	}
	o.Lies, o.Silent = 0, 1
	if r := run(t, o); r.Success != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Options){
		func(o *Options) { o.Transfers = 0 },
		func(o *Options) { o.Providers = 1001 },
		func(o *Options) { o.AtOnce = 17 },
		func(o *Options) { o.Size = 0 },
		func(o *Options) { o.Rate = 1 },
		func(o *Options) { o.RTT = 0 },
		func(o *Options) { o.Silent = 2 },
		func(o *Options) { o.Lies = -1 },
		func(o *Options) { o.Loss = 1 },
	} {
		o := usual()
		change(&o)
		if _, err := Run(t.Context(), o); status.Of(err) != status.BadRequest {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, usual()); status.Of(err) != status.Canceled {
		t.Errorf("canceled: %v", err)
	}
}

// BenchmarkTransfer plays 1 GiB from providers of every kind: what the schedule
// and the simulation cost together.
func BenchmarkTransfer(b *testing.B) {
	o := usual()
	o.Transfers, o.Size, o.AtOnce, o.Silent, o.Lies, o.Loss = 1, 1<<30, 8, 0.1, 0.1, 0.05
	for b.Loop() {
		if _, err := Run(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(o.groups())/b.Elapsed().Seconds(), "groups/s")
}
