package local

import (
	"errors"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep"
)

// TestAwaitEnds: a wait for copies ends in every state in which none come, and not while some do.
func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	unsent := upkeep.Failures{SendErr: errors.New("quota")}
	full := plan.Takers{Wanted: 3, Members: 2, Refused: map[string]int{"draining": 1}}
	for name, test := range map[string]struct {
		s    upkeep.Progress
		wait time.Duration // for which it is so before it ends; negative: it does not end
		want status.Outcome
		says string
	}{
		"on their way": {s: upkeep.Progress{Coming: 1, Unplanned: 3, Given: 1, LastOnly: true}, wait: -1},
		"out of reach": {
			s:    upkeep.Progress{Blocked: upkeep.Blocked{Stuck: 1, Takers: full}, Coming: 1},
			wait: clusterWait, says: "2 nodes that can hold one",
		},
		"given up":  {s: upkeep.Progress{Given: 1}, wait: heldAfter, want: status.Conflict, says: "asks for fewer"},
		"too many":  {s: upkeep.Progress{Unplanned: 2}, wait: heldAfter, says: "2 objects with a target"},
		"last only": {s: upkeep.Progress{LastOnly: true}, wait: heldAfter, says: "vanished together"},
		"not sent":  {s: upkeep.Progress{Failures: unsent}, wait: stuckAfter, says: "quota"},
		"some not sent": {
			s: upkeep.Progress{Coming: 1, Failures: unsent}, wait: failingAfter, says: "quota",
		},
		"not coded": {
			s:    upkeep.Progress{Failures: upkeep.Failures{CodeErr: errors.New("disk")}},
			wait: heldAfter, says: "not made: disk",
		},
		"not looked at": {s: upkeep.Progress{Pending: true}, wait: failingAfter, says: "new pins"},
		"not proved":    {wait: stuckAfter, says: "do not prove"},
	} {
		var w copiesWatch
		now := time.Unix(1_700_000_000, 0)
		p := api.Placed{Objects: 4}
		for p.Met = range 3 { // copies come, after longer than it waits for
			if err := w.look(&upkeep.Progress{Coming: 1}, p, now); err != nil {
				t.Errorf("%s: it ends while copies come: %v", name, err)
			}
			now = now.Add(test.wait + time.Second)
		}
		p.Met = 3
		test.s.Failing = now
		if err := w.look(&test.s, p, now); err != nil {
			t.Errorf("%s: it ends at once: %v", name, err)
		}
		if test.wait < 0 {
			if err := w.look(&test.s, p, now.Add(100*time.Hour)); err != nil {
				t.Errorf("%s: it ends: %v", name, err)
			}
			continue
		}
		if err := w.look(&test.s, p, now.Add(test.wait-1)); err != nil {
			t.Errorf("%s: it ends too early: %v", name, err)
		}
		if test.want == status.OK {
			test.want = status.NotReady
		}
		if err := w.look(&test.s, p, now.Add(test.wait)); status.Of(err) != test.want ||
			!strings.Contains(err.Error(), "3 of 4 objects") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
}

// TestAwaitBesideAdds: that others pin all the time does not keep a wait from its end if too few members can hold the
// copies.
func TestAwaitBesideAdds(t *testing.T) {
	t.Parallel()
	var w copiesWatch
	now, p := time.Unix(1_700_000_000, 0), api.Placed{Objects: 1}
	full := upkeep.Progress{Blocked: upkeep.Blocked{Stuck: 1, Takers: plan.Takers{Wanted: 3, Members: 2}}}
	for i := range int(clusterWait/lookLast) + 2 {
		s := full
		if i%2 == 1 {
			s = upkeep.Progress{Pending: true}
		}
		if err := w.look(&s, p, now); err != nil {
			if !strings.Contains(err.Error(), "2 nodes that can hold one") {
				t.Error(err)
			}
			return
		}
		now = now.Add(lookLast)
	}
	t.Error("the wait does not end")
}

// TestAwaitSlowSend: one failed send does not end the wait for an object that takes hours.
func TestAwaitSlowSend(t *testing.T) {
	t.Parallel()
	var w copiesWatch
	now, p := time.Unix(1_700_000_000, 0), api.Placed{Objects: 2}
	for range 600 {
		s := upkeep.Progress{Coming: 1}
		s.SendErr, s.Failing = errors.New("quota"), now.Add(-time.Minute)
		if err := w.look(&s, p, now); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
}
