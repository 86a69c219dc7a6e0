package main

import (
	"math"
	"testing"
	"time"
)

// TestGrowth: what grows by 1 % of its mean in a minute, and swings, grows by 10 % in ten, within the error of its
// row, and what only swings does not grow.
func TestGrowth(t *testing.T) {
	t.Parallel()
	var all []sample
	for i := range 61 {
		at := float64(i) / 4 // minutes
		all = append(all, sample{
			at: time.Duration(at * float64(time.Minute)), rss: 100 + (at - 7.5) + 3*math.Sin(float64(i)),
			goal: 50 + 3*math.Sin(float64(i)), files: 7,
		})
	}
	for what, want := range map[string]float64{"RSS": 10, "heap goal": 0, "open files": 0} {
		for _, row := range growth("", all) {
			if row.What != what+", growth" {
				continue
			}
			if v := row.Values; v[0] > want || want > v[2] || math.Abs(v[1]-want) > 1.5 {
				t.Errorf("%s grows by %.2f %% in 10 minutes, want %.0f", what, v, want)
			}
			want = math.NaN() // it was there
		}
		if !math.IsNaN(want) {
			t.Errorf("no growth of %s", what)
		}
	}
}
