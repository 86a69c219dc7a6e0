package limits_test

import (
	"testing"

	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/status"
)

// TestMembers compares a family of gates and one of budgets with plain lists of what is in use.
func TestMembers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const places, peers = 3, 4
		reg := limits.NewRegistry(nil)
		gates, budgets := reg.NewGate(family("gates"), places, 0), reg.NewBudget(family("bytes"), places)
		var gate [peers]*limits.Gate
		var budget [peers]*limits.Budget
		var used [peers]int64
		for i := range peers {
			gate[i], budget[i] = gates.Member(), budgets.Member()
		}
		peak, rejected := int64(0), int64(0)
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			i := rapid.IntRange(0, peers-1).Draw(t, "peer")
			if used[i] > 0 && rapid.Bool().Draw(t, "leave") {
				gate[i].Leave()
				budget[i].Release(1)
				used[i]--
				continue
			}
			for _, err := range []error{gate[i].Enter(), budget[i].TryAcquire(1)} {
				if full := used[i] == places; (status.Of(err) == status.Busy) != full {
					t.Fatalf("with %d places taken: %v", used[i], err)
				}
			}
			if used[i] == places {
				rejected++
				continue
			}
			used[i]++
			peak = max(peak, used[i])
		}
		most, members := int64(0), int64(0)
		for _, n := range used {
			most = max(most, n)
			members += min(n, 1)
		}
		infos := reg.Snapshot()
		for _, l := range infos {
			if l.Capacity != places || l.Current != most || l.Peak != peak || l.Members != members ||
				l.Rejected != rejected {
				t.Fatalf("%+v of %v, most %d, %d refused", l, used, peak, rejected)
			}
		}
		if len(infos) != 2 || infos[0].Each != "peer" || infos[1].Each != "peer" {
			t.Fatalf("%+v", infos)
		}
	})
}
