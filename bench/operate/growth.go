package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"allium/bench/measure"
)

// sample holds the memory in MB, the size in MB at which Go collects its heap next, the open files, the goroutines and
// the streams of a node at one moment. RSS follows the heap's goal, and swings about it.
type sample struct {
	at                                    time.Duration
	rss, goal, files, goroutines, streams float64
}

// sampleOf reads what the process holds now.
func sampleOf(ctx context.Context, p *measure.Process) (s sample, err error) {
	rss, err := p.Memory()
	if err != nil {
		return s, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
	if err != nil {
		return s, err
	}
	s.rss, s.files = float64(rss)/1e6, float64(len(open))
	now, err := p.Counters(ctx)
	s.goroutines, s.goal = now["go_goroutines"], now["go_memstats_next_gc_bytes"]/1e6
	for name, v := range now {
		if strings.HasPrefix(name, "libp2p_rcmgr_streams{") && strings.Contains(name, `scope="system"`) {
			s.streams += v
		}
	}
	return s, err
}

// growthOver is the least number of minutes from which the growth in ten is computed.
const growthOver = 5

// growth returns rows of the third quarter of a node's samples, of the fourth,
// of the mean of the fourth divided by that of the third, and of the growth in ten minutes by a straight line through
// all samples, with two standard errors below and above, if they took long enough to tell. A line through the second
// half would have three times the error, which is more than the target.
func growth(who string, all []sample) (rows []measure.Row) {
	for _, m := range []struct {
		what, unit string
		of         func(sample) float64
	}{
		{"RSS", "MB", func(s sample) float64 { return s.rss }},
		{"heap goal", "MB", func(s sample) float64 { return s.goal }},
		{"open files", "", func(s sample) float64 { return s.files }},
		{"goroutines", "", func(s sample) float64 { return s.goroutines }},
		{"streams", "", func(s sample) float64 { return s.streams }},
	} {
		var values, minutes []float64
		for _, s := range all {
			values, minutes = append(values, m.of(s)), append(minutes, s.at.Minutes())
		}
		half, last := len(values)/2, len(values)*3/4
		third, fourth := values[half:last], values[last:]
		if len(third) == 0 || len(fourth) == 0 {
			continue
		}
		rows = append(rows,
			measure.Single(who+m.what+", third quarter", m.unit, "", mean(third)),
			measure.Single(who+m.what+", fourth quarter", m.unit, "", mean(fourth)),
			measure.Single(who+m.what+", fourth ÷ third", "×", "about 1", mean(fourth)/max(mean(third), 1)))
		if minutes[len(minutes)-1]-minutes[0] < growthOver {
			continue
		}
		grows, off := slope(minutes, values)
		inTen := 100 * 10 / max(mean(values), 1)
		rows = append(rows, measure.Row{
			What: who + m.what + ", growth", Unit: "% in 10 min", Target: "≤ 1",
			Values: []float64{(grows - 2*off) * inTen, grows * inTen, (grows + 2*off) * inTen},
		})
	}
	return rows
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// slope is that of the straight line through points with the least squares, and its standard error.
func slope(x, y []float64) (b, off float64) {
	mx, my := mean(x), mean(y)
	var xy, xx float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	if xx == 0 || len(x) < 3 {
		return 0, 0
	}
	b = xy / xx
	var rest float64
	for i := range x {
		e := y[i] - my - b*(x[i]-mx)
		rest += e * e
	}
	return b, math.Sqrt(rest / float64(len(x)-2) / xx)
}
