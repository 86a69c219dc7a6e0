package dhtsim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"allium/protocols/kad"
)

// Report holds the measurements of a run.
type Report struct {
	// Hops is the number of hops to the first answer from one of the k closest nodes
	// alive when the lookup began, or to the provider if that came first. Peers of the
	// node's own table are hop 1. Lookups that reached neither are left out.
	Hops Hops `json:"hops"`
	// RPCs is the number of RPCs of a lookup, with hedges.
	RPCs RPCs `json:"rpcs"`
	// Success is the share of the lookups that found a provider.
	Success  float64   `json:"success"`
	Seed     uint64    `json:"seed"`
	Recovery *Recovery `json:"recovery,omitempty"` // nil without Options.Dead

	options Options
	tally   tally
}

// Hops are percentiles.
type Hops struct {
	P50 int `json:"p50"`
	P95 int `json:"p95"`
	P99 int `json:"p99"`
	Max int `json:"max"`
}

// RPCs are percentiles.
type RPCs struct {
	P50 int `json:"p50"`
	P99 int `json:"p99"`
}

// Recovery is the success of lookups after many nodes left at once.
type Recovery struct {
	Dead    float64   `json:"dead"`    // share of the nodes that left
	Windows []float64 `json:"windows"` // success in each 30 s after that
	Seconds int       `json:"seconds"` // until success stayed at 99 % or more; -1: not within 300 s
}

// tally counts lookups.
type tally struct {
	lookups, found int
	hops, rpcs     histogram
	took           histogram // ms
}

// count adds a lookup to the tally of the time when it began.
func (w *world) count(l *lookup, r kad.Result[int32]) {
	t := &w.tally
	if w.struck > 0 && l.started >= w.struck {
		i := int((l.started - w.struck) / window)
		for len(w.after) <= i {
			w.after = append(w.after, tally{})
		}
		t = &w.after[i]
	}
	t.lookups++
	t.rpcs.add(r.Probes)
	t.took.add(int(r.Took / time.Millisecond))
	if r.End == kad.Satisfied {
		t.found++
		if l.hops == 0 {
			l.hops = r.Hops
		}
	}
	if l.hops > 0 {
		t.hops.add(l.hops)
	}
}

func (t tally) success() float64 { return float64(t.found) / float64(max(t.lookups, 1)) }

func (w *world) report() Report {
	t := w.tally
	r := Report{
		Hops:    Hops{t.hops.percentile(50), t.hops.percentile(95), t.hops.percentile(99), t.hops.percentile(100)},
		RPCs:    RPCs{t.rpcs.percentile(50), t.rpcs.percentile(99)},
		Success: t.success(), Seed: w.o.Seed,
		options: w.o, tally: t,
	}
	if w.o.Dead > 0 {
		rec := &Recovery{Dead: w.o.Dead, Seconds: -1}
		for i, t := range w.after {
			s := t.success()
			rec.Windows = append(rec.Windows, s)
			switch {
			case s < recovered:
				rec.Seconds = -1
			case rec.Seconds < 0:
				rec.Seconds = i * int(window/time.Second)
			}
		}
		r.Recovery = rec
	}
	return r
}

// WriteText writes the report for people.
func (r Report) WriteText(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, churn %g %%/h, seed %d: %d lookups in 1 h of simulated time\n\n",
		r.options.Nodes, r.options.Churn*100, r.Seed, r.tally.lookups)
	for hop, n := range r.tally.hops {
		if hop == 0 {
			continue
		}
		share := float64(n) / float64(r.tally.hops.total())
		fmt.Fprintf(&b, "hop %-2d %7d  %6.2f %%  %s\n", hop, n, share*100, strings.Repeat("█", int(share*50+0.5)))
	}
	fmt.Fprintf(&b, "\nhops     p50 %d, p95 %d, p99 %d, max %d\n", r.Hops.P50, r.Hops.P95, r.Hops.P99, r.Hops.Max)
	fmt.Fprintf(&b, "RPCs     p50 %d, p99 %d a lookup\n", r.RPCs.P50, r.RPCs.P99)
	fmt.Fprintf(&b, "took     p50 %d ms, p99 %d ms of simulated time\n", r.tally.took.percentile(50),
		r.tally.took.percentile(99))
	fmt.Fprintf(&b, "success  %.3f %%\n", r.Success*100)
	if rec := r.Recovery; rec != nil {
		fmt.Fprintf(&b, "\n%g %% of the nodes dead at once: success in each 30 s since\n        ", rec.Dead*100)
		for _, s := range rec.Windows {
			fmt.Fprintf(&b, " %.1f", s*100)
		}
		if rec.Seconds < 0 {
			b.WriteString(" %\nnot at 99 % again within 300 s\n")
		} else {
			fmt.Fprintf(&b, " %%\nat 99 %% or more from %d s on\n", rec.Seconds)
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// histogram counts values: element v is how often v was counted.
type histogram []int

func (h *histogram) add(v int) {
	for len(*h) <= v {
		*h = append(*h, 0)
	}
	(*h)[v]++
}

func (h histogram) total() (n int) {
	for _, c := range h {
		n += c
	}
	return n
}

// percentile returns the smallest value that p percent of the counted values do not
// exceed; 0 for an empty histogram.
func (h histogram) percentile(p int) int {
	seen, total := 0, h.total()
	for v, c := range h {
		if seen += c; total > 0 && seen*100 >= total*p {
			return v
		}
	}
	return 0
}
