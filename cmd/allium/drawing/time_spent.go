package drawing

import (
	"fmt"
	"strings"

	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/protocols/status"
)

// TimeSpent says where the time of a lookup went.
func TimeSpent(l api.Lookup) string {
	var parts []string
	part := func(ms float64, what string) {
		if ms >= 0.05 {
			parts = append(parts, term.Milliseconds(ms)+" "+what)
		}
	}
	var permit float64
	for _, s := range l.Steps {
		if s.Source == "permit" {
			permit += s.TookMS
		}
	}
	found := 0.0
	if len(l.Providers) > 0 {
		found = l.Providers[0].FoundMS
	}
	switch ready := l.ReadyMS; {
	case ready > 0:
		part(min(found, ready), "until the first provider")
		part(ready-found, "until the first bytes")
		part(l.TookMS-ready, "after them")
	case len(l.Providers) > 0:
		part(found, "until the first provider")
		part(l.TookMS-found, "without a byte")
	case l.Outcome == status.OK.String():
		part(l.TookMS, "until the answer")
	default:
		part(l.TookMS, "without a provider")
	}
	text := "time: " + strings.Join(parts, ", ")
	if len(parts) == 0 {
		text = "time: less than 0.1 ms"
	}
	if permit > 0 {
		text += "; " + term.Milliseconds(permit) + " of it waiting for a place among the fetches"
	}
	if l.BudgetMS > 0 {
		text += fmt.Sprintf("; %.0f %% of its %s", 100*l.TookMS/l.BudgetMS, term.Milliseconds(l.BudgetMS))
	}
	return text
}
