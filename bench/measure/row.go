package measure

import (
	"fmt"
	"slices"
	"time"
)

// Row is one line of the result. Values are those of the rounds.
type Row struct {
	What, Unit, Target string
	Values             []float64
}

// Format is one line of the result: what, median, range, target.
const Format = "%-52s %-16s %-20s %s\n"

// String is the line of a row that has values, with their range if there are several.
func (r Row) String() string {
	v := slices.Sorted(slices.Values(r.Values))
	span := ""
	if len(v) > 1 {
		span = Number(v[0]) + " – " + Number(v[len(v)-1])
	}
	return fmt.Sprintf(Format, r.What, Number(v[len(v)/2])+" "+r.Unit, span, r.Target)
}

// Single is the row of one value.
func Single(what, unit, target string, v float64) Row {
	return Row{What: what, Unit: unit, Target: target, Values: []float64{v}}
}

// Number writes a number in three digits, or in whole ones.
func Number(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// Quantile is the p-th percentile of sorted values.
func Quantile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)-1)*p/100]
}

// Millis is a percentile of sorted values in milliseconds, 0 where there are none.
func Millis(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(Quantile(sorted, p).Microseconds()) / 1000
}

// Pairs divides a by b round by round.
func Pairs(a, b []float64) []float64 {
	q := make([]float64, len(a))
	for i := range a {
		q[i] = a[i] / b[i]
	}
	return q
}
