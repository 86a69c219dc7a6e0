package fetchsim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/resolver/schedule"
)

// Report holds the measurements of a run.
type Report struct {
	// Took is the duration of the successful transfers in milliseconds of simulated
	// time.
	Took Percentiles `json:"took_ms"`
	// Efficiency is the rate of a successful transfer divided by the best possible
	// rate. That is the sum of the fastest Options.AtOnce honest providers that were
	// found.
	Efficiency Shares `json:"efficiency"`
	// Requests is the number of requests of a transfer.
	Requests Percentiles `json:"requests"`
	// Twice is the share of the received groups that were stored already.
	Twice float64 `json:"twice"`
	// Hedges counts the requests that doubled a late one, by their result.
	Hedges Hedges `json:"hedges"`
	// Lies is the number of answers that failed verification.
	Lies int `json:"lies"`
	// Success is the share of the transfers that received the whole object.
	Success float64 `json:"success"`
	Seed    uint64  `json:"seed"`

	options Options
}

// Percentiles are percentiles of whole numbers.
type Percentiles struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// Shares are percentiles from above: P95 is the share that 95 % of the transfers reach
// or exceed.
type Shares struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Hedges counts hedged requests by result.
type Hedges struct {
	Won    int `json:"won"`
	Lost   int `json:"lost"`
	Failed int `json:"failed"`
}

// tally collects the results of transfers.
type tally struct {
	took, requests []int64   // of successful transfers in ms; of all transfers
	efficiency     []float64 // of successful transfers
	all            int       // transfers
	groups, extra  int64     // groups received; those of them that were stored already
	lies           int
	hedges         [4]int // by schedule.Hedge
}

// count adds the result of a transfer.
func (t *tally) count(w *world) {
	t.all++
	t.requests = append(t.requests, int64(w.asked))
	t.extra += w.extra
	t.lies += w.lies
	for i, n := range w.hedges {
		t.hedges[i] += n
	}
	if w.stored != nil {
		t.groups += b3.Groups(w.stored.bytes) + w.extra
	}
	if w.end == schedule.Done {
		t.took = append(t.took, int64(w.now/time.Millisecond))
		t.efficiency = append(t.efficiency, float64(w.ideal())/float64(max(w.now, 1)))
	}
}

func (t *tally) report(o Options) Report {
	slices.SortFunc(t.efficiency, func(a, b float64) int { return cmp.Compare(b, a) })
	return Report{
		Took: percentiles(t.took), Requests: percentiles(t.requests),
		Efficiency: Shares{at(t.efficiency, 50), at(t.efficiency, 95)},
		Twice:      float64(t.extra) / float64(max(t.groups, 1)),
		Hedges: Hedges{
			Won: t.hedges[schedule.HedgeWon], Lost: t.hedges[schedule.HedgeLost],
			Failed: t.hedges[schedule.HedgeFailed],
		},
		Lies: t.lies, Success: float64(len(t.took)) / float64(t.all), Seed: o.Seed, options: o,
	}
}

// percentiles sorts n and returns its percentiles.
func percentiles(n []int64) Percentiles {
	slices.Sort(n)
	return Percentiles{at(n, 50), at(n, 95), at(n, 99), at(n, 100)}
}

// at returns the first value of sorted at or before which p percent of the values
// stand. It returns zero if there are none.
func at[T any](sorted []T, p int) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// WriteText writes the report for people.
func (r Report) WriteText(to io.Writer) error {
	o := r.options
	var b strings.Builder
	fmt.Fprintf(&b, "%d transfers of %s, each from %d providers, %d at once, seed %d\n",
		o.Transfers, limits.Bytes(o.Size), o.Providers, o.AtOnce, r.Seed)
	fmt.Fprintf(&b, "a provider sends %s/s at %s, the medians; %g %% are silent, %g %% lie, %g %% of the requests are "+
		"lost\n\n",
		limits.Bytes(o.Rate), o.RTT, o.Silent*100, o.Lies*100, o.Loss*100)
	fmt.Fprintf(&b, "took        p50 %d ms, p95 %d ms, p99 %d ms, max %d ms of simulated time\n", r.Took.P50,
		r.Took.P95,
		r.Took.P99, r.Took.Max)
	fmt.Fprintf(&b, "efficiency  p50 %.0f %%, p95 %.0f %% of the rate of the %d fastest honest providers found\n",
		r.Efficiency.P50*100, r.Efficiency.P95*100, o.AtOnce)
	fmt.Fprintf(&b, "requests    p50 %d, p99 %d a transfer\n", r.Requests.P50, r.Requests.P99)
	fmt.Fprintf(&b, "twice       %.2f %% of the bytes\n", r.Twice*100)
	fmt.Fprintf(&b, "hedges      %d won, %d lost, %d failed\n", r.Hedges.Won, r.Hedges.Lost, r.Hedges.Failed)
	fmt.Fprintf(&b, "lies        %d found\n", r.Lies)
	fmt.Fprintf(&b, "success     %.3f %%\n", r.Success*100)
	_, err := io.WriteString(to, b.String())
	return err
}
