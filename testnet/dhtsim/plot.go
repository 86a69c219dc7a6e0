package dhtsim

import (
	"fmt"
	"io"
	"strings"
)

// Sizes of the drawing in pixels.
const (
	plotWidth, plotHeight = 760, 560
	panelHeight           = 170
	plotMargin            = 50
)

// WriteSVG draws the histograms of hops and of RPCs.
func (r Report) WriteSVG(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" `+
		`viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12" fill="#222">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="28" font-size="16">`+
		`%d nodes, churn %g %%/h, %d lookups, success %.3f %%, seed %d</text>`+"\n",
		plotMargin, r.options.Nodes, r.options.Churn*100, r.tally.lookups, r.Success*100, r.Seed)
	panel(&b, 60, fmt.Sprintf("Hops to one of the k closest: p50 %d, p95 %d, p99 %d, max %d", r.Hops.P50, r.Hops.P95,
		r.Hops.P99, r.Hops.Max), r.tally.hops)
	panel(&b, 310, fmt.Sprintf("RPCs of a lookup: p50 %d, p99 %d", r.RPCs.P50, r.RPCs.P99), r.tally.rpcs)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(to, b.String())
	return err
}

// panel draws one histogram, its title at height y.
func panel(b *strings.Builder, y int, title string, h histogram) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="14">%s</text>`+"\n", plotMargin, y, title)
	base := y + 25 + panelHeight
	most, total := 1, max(h.total(), 1)
	for _, n := range h {
		most = max(most, n)
	}
	bars := max(len(h)-1, 1) // the value 0 does not occur
	step := float64(plotWidth-2*plotMargin) / float64(bars)
	labels := (bars + 24) / 25 // interval of the labelled bars, at most 25 or so
	for v, n := range h {
		if v == 0 {
			continue
		}
		x := plotMargin + float64(v-1)*step
		height := float64(panelHeight) * float64(n) / float64(most)
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#4a7fb5">`+
			`<title>%d: %d</title></rect>`+"\n",
			x+step*0.1, float64(base)-height, step*0.8, height, v, n)
		if v == 1 || v%labels == 0 {
			fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x+step/2, base+16, v)
		}
		if bars <= 12 {
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="11">%.2f %%</text>`+"\n", x+step/2,
				float64(base)-height-4, 100*float64(n)/float64(total))
		}
	}
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#222"/>`+"\n", plotMargin, base, plotWidth-plotMargin,
		base)
}
