package plan

import (
	"testing"
	"time"

	"allium/store/meta"
)

// TestLeaseIsPassedOn: while another holder asks for the lease, the one that had it does not get it again: not while it
// holds, and not after its end. If it lost the lease, the other one gets it when it asks next. A holder that asks no
// more is not waited for.
func TestLeaseIsPassedOn(t *testing.T) {
	t.Parallel()
	p, now := DefaultParams(), time.Unix(1_700_000_000, 0)
	v := NewView("member-0", members(5, 5), false)
	o := NewObject(number(1), 100, now)
	o.Ask("member-0", meta.Target{Copies: 2, Seq: 1}, now)
	for _, id := range []ID{"member-1", "member-2", "member-3", "member-4"} {
		o.Answered(id, Proved, Whole, p, now)
	}
	for i, step := range []struct {
		after time.Duration
		from  ID
		want  bool
	}{
		{0, "member-1", true},
		{time.Hour, "member-1", true}, // as after a restart, and nobody waits
		{time.Hour, "member-2", false},
		{p.Grace, "member-1", false}, // as after a restart: it has lost the lease, and another one waits
		{0, "member-1", false},
		{0, "member-2", true}, // which need not wait until the planned end
		{time.Hour, "member-1", false},
		{leaseTime(p) - time.Hour - p.Grace, "member-1", false},
		{p.Grace, "member-2", false}, // its end is over, and the other one asked last
		{0, "member-1", true},
		{time.Hour, "member-2", false},
		{2 * p.Grace, "member-1", true},        // member-2 asks no more
		{-10 * leaseTime(p), "member-2", true}, // the clock was set back
	} {
		if now = now.Add(step.after); o.At(v, p, now).GrantLease(step.from) != step.want {
			t.Errorf("step %d: %s gets %v", i, step.from, !step.want)
		}
	}
}
