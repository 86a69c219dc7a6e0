package local

import (
	"errors"
	"strings"
	"testing"
	"time"

	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep"
)

// TestEvacuationEnds: how the wait for an evacuation ends, and when.
func TestEvacuationEnds(t *testing.T) {
	t.Parallel()
	since := time.Unix(1_700_000_000, 0)
	stuck := upkeep.Blocked{Stuck: 1}
	full := upkeep.Blocked{Stuck: 1, Takers: plan.Takers{Wanted: 3, Members: 2, Refused: map[string]int{"draining": 1}}}
	for name, test := range map[string]struct {
		h    upkeep.Handover
		wait time.Duration // for which it is so before it ends; negative: it does not end
		want status.Outcome
		says string
	}{
		"done":    {h: upkeep.Handover{Since: since, Ready: true, Objects: 3}},
		"stopped": {h: upkeep.Handover{Objects: 3}, want: status.Canceled, says: "full member"},
		"not ready": {
			h:    upkeep.Handover{Since: since, Objects: 3, Left: 1, Blocked: stuck},
			wait: refusedAfter, want: status.NotReady, says: "did not look at all its pins",
		},
		"goes on": {h: upkeep.Handover{Since: since, Ready: true, Objects: 3, Left: 2, Blocked: stuck}, wait: -1},
		"alone": {
			h:    upkeep.Handover{Since: since, Ready: true, Objects: 3, Alone: 2},
			want: status.Conflict, says: "2 pins ask for none",
		},
		"too many": {
			h:    upkeep.Handover{Since: since, Ready: true, Objects: 3, Unplanned: 2},
			want: status.NotReady, says: "2 more than it plans",
		},
		"unreadable": {
			h: upkeep.Handover{Since: since, Ready: true, Partial: true}, want: status.NotReady,
			says: "could not be read",
		},
		"stuck": {
			h:    upkeep.Handover{Since: since, Ready: true, Objects: 3, Left: 1, Blocked: full},
			wait: blockedAfter, want: status.NotReady,
			says: "2 of 3 objects are handed over; for 1 of 1 objects that are left there are too few other nodes",
		},
		"refused": {
			h:    upkeep.Handover{Since: since, Ready: true, Objects: 3, Left: 1, SendErr: errors.New("quota")},
			wait: refusedAfter, want: status.NotReady, says: "quota",
		},
	} {
		w := evacuationWatch{least: -1}
		now := since
		ended, err := w.look(&test.h, now)
		if test.wait != 0 {
			if ended {
				t.Errorf("%s: it ends at once with %v", name, err)
			}
			if test.wait < 0 {
				now = now.Add(time.Hour)
			}
			now = now.Add(test.wait - 1)
			if ended, err = w.look(&test.h, now); ended {
				t.Errorf("%s: it ends with %v", name, err)
			}
			ended, err = w.look(&test.h, now.Add(1))
		}
		if ended != (test.wait >= 0) || status.Of(err) != test.want ||
			err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: ended %t, %v", name, ended, err)
		}
	}
}

// TestEvacuationGoesOn: when something was handed over, or members are back, the wait begins anew.
func TestEvacuationGoesOn(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	w := evacuationWatch{least: -1}
	h := upkeep.Handover{Since: now, Ready: true, Objects: 9, Left: 9, SendErr: errors.New("quota")}
	h.Stuck = 9
	for left := 9; left > 0; left-- {
		for _, stuck := range []int{left, left - 1} {
			h.Left, h.Stuck = left, stuck
			if ended, err := w.look(&h, now); ended {
				t.Fatalf("with %d of %d stuck it ends: %v", stuck, left, err)
			}
			now = now.Add(blockedAfter * 2)
		}
	}
}
