package drawing

import (
	"strings"
	"testing"

	"allium/gateway/api"
)

// TestLimits: the fullest limit is first, a family says of what, and the table fits its terminal.
func TestLimits(t *testing.T) {
	t.Parallel()
	limits := []api.Limit{
		{Name: "none", Kind: "gate", Capacity: 0},
		{Name: "idle", Kind: "queue", Capacity: 512, Peak: 3, Policy: "reject busy"},
		{Name: "refused", Kind: "rate", Capacity: 20, Rejected: 7, Policy: "counted"},
		{Name: "half", Kind: "budget", Capacity: 1 << 20, Current: 1 << 19, Peak: 1 << 20},
		{Name: "full", Kind: "gate", Capacity: 4, Current: 4, Peak: 4, Policy: "wait", Each: "peer", Members: 3},
	}
	SortLimits(limits)
	if got := LimitLines(limits); got != "full 4 4\nhalf 524288 1048576\nrefused 0 20\nidle 0 512\nnone 0 0" {
		t.Errorf("the order is\n%s", got)
	}
	want := `name             kind    in use          peak     refused  when full
full (per peer)  gate    4/4 of 3        4        0        wait
half             budget  524288/1048576  1048576  0
refused          rate    0/20            0        7        counted
idle             queue   0/512           3        0        reject busy
none             gate    0/0             0        0`
	if got := Limits(limits, 0, 0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	cut := strings.Split(Limits(limits, 20, 3), "\n")
	if len(cut) != 3 || len(cut[1]) > 22 || !strings.HasPrefix(cut[1], "full (per peer)") {
		t.Errorf("on a small terminal: %q", cut)
	}
}
