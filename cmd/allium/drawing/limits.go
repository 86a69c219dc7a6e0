package drawing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"allium/cmd/allium/term"
	"allium/gateway/api"
)

// SortLimits sorts limits by how full they are, the fullest first. If two are as full, the one that refused more is
// first.
func SortLimits(limits []api.Limit) {
	slices.SortStableFunc(limits, func(a, b api.Limit) int {
		return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(b.Rejected, a.Rejected), cmp.Compare(a.Name, b.Name))
	})
}

// share returns which part of a limit is in use.
func share(l api.Limit) float64 {
	if l.Capacity == 0 {
		return 0 // it bounds nothing
	}
	return float64(l.Current) / float64(l.Capacity)
}

// Limits returns a table of limits in their order, a line each below a head. Lines have at most columns
// columns and there are at most rows of them; 0 is no bound.
func Limits(limits []api.Limit, columns, rows int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tkind\tin use\tpeak\trefused\twhen full")
	for _, l := range limits {
		name := l.Name
		if l.Each != "" {
			name += " (per " + l.Each + ")"
		}
		used := fmt.Sprintf("%d/%d", l.Current, l.Capacity)
		if l.Members > 1 {
			used += fmt.Sprintf(" of %d", l.Members)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", name, l.Kind, used, l.Peak, l.Rejected, l.Policy)
	}
	_ = w.Flush() // a Builder takes everything
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if rows > 0 && len(lines) > rows {
		lines = lines[:rows]
	}
	for i, line := range lines {
		if line = strings.TrimRight(line, " "); columns > 0 {
			line = term.Cut(line, columns)
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// LimitLines returns the name of each limit, what is in use and the capacity, for scripts.
func LimitLines(limits []api.Limit) string {
	lines := make([]string, len(limits))
	for i, l := range limits {
		lines[i] = fmt.Sprintf("%s %d %d", l.Name, l.Current, l.Capacity)
	}
	return strings.Join(lines, "\n")
}
