package routing

import (
	"math"

	"allium/internal/ipgroup"
)

// entropy returns the Shannon entropy of the groups over the table's entries, divided by
// its value if no two entries shared a group. It returns 1 with fewer than two entries.
// Exempt entries do not count. An entry of several groups counts in each.
func (t *Table) entropy() float64 {
	counts := make(map[ipgroup.Group]int)
	n := 0
	for i := range t.buckets {
		for _, e := range t.buckets[i].load() {
			for _, g := range *e.groups.Load() {
				counts[g]++
				n++
			}
		}
	}
	if n < 2 {
		return 1
	}
	var h float64
	for _, c := range counts {
		p := float64(c) / float64(n)
		h -= p * math.Log2(p)
	}
	return h / math.Log2(float64(n))
}
