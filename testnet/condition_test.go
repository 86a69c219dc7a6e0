package testnet

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/testnet/script"
)

func idsOf(n int) []api.ID {
	ids := make([]api.ID, n)
	for i := range ids {
		ids[i] = api.ID{ID: fmt.Sprint("peer", i+1), Addrs: []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", i+1)}}
	}
	return ids
}

// after is the condition of a network of five after some lines.
func after(t *testing.T, lines string) condition {
	t.Helper()
	c := condition{n: 5}
	for line := range strings.SplitSeq(lines, "; ") {
		s, err := script.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		c = c.with(s)
	}
	return c
}

func TestCondition(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string][]string{ // of nodes 1 to 5
		"partition 1,2 | 3-5": {"is cut from 3,4,5", "is cut from 3,4,5", "is cut from 1,2", "is cut from 1,2",
			"is cut from 1,2"},
		"partition 1,2 | 3,4": {"is cut from 3,4", "is cut from 3,4", "is cut from 1,2", "is cut from 1,2", ""},
		"partition 4": {"is cut from 4", "is cut from 4", "is cut from 4", "is cut from 1,2,3,5",
			"is cut from 4"},
		"partition 4; heal 4":       {"", "", "", "", ""},
		"partition 1 | 2,3; heal 1": {"", "", "", "", ""},
		"partition 4; partition 5": {"is cut from 5", "is cut from 5", "is cut from 5", "is cut from 5",
			"is cut from 1,2,3,4"},
		"partition 4; partition off": {"", "", "", "", ""},
		"latency 50ms ±10ms [1:2,3]": {"sends 50ms ±10ms late to 2,3", "sends 50ms ±10ms late to 1",
			"sends 50ms ±10ms late to 1", "", ""},
		"latency 1s [1]; latency off [3]; loss 5% [1:2]": {
			"loses 5% of what it sends to 2, sends 1s late to 2,4,5",
			"loses 5% of what it sends to 1, sends 1s late to 1", "",
			"sends 1s late to 1", "sends 1s late to 1",
		},
		"slow 2 1MiB/s; corrupt 2,3; full-disk 4; clock-skew 5 -1h": {
			"", "lies, sends at most 1MiB/s", "lies", "has a full disk", "has its clock -1h0m0s ahead",
		},
		"slow all 1MiB/s; slow 2-5 off; corrupt 2; corrupt 2 off; heal 3": {"sends at most 1MiB/s", "", "", "", ""},
		"loss 5%; corrupt all; heal":                                      {"", "", "", "", ""},
	} {
		c := after(t, lines)
		for i := 1; i <= 5; i++ {
			said := describe(c.of(i, idsOf(5)), idsOf(5))
			if got := sorted(said); got != want[i-1] {
				t.Errorf("after %q node %d %q, want %q", lines, i, got, want[i-1])
			}
		}
	}
}

func sorted(said []string) string {
	out := append([]string(nil), said...)
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return strings.Join(out, ", ")
}

// TestConditionIsNotChanged: a verb that fails must find the one before as it
// was.
func TestConditionIsNotChanged(t *testing.T) {
	t.Parallel()
	before := after(t, "partition 1 | 2; slow 3 1MiB/s; corrupt 4; full-disk 4; clock-skew 5 +1h; loss 5%")
	said := before.of(4, idsOf(5))
	for _, line := range []string{"heal", "heal 4", "partition off", "loss off", "corrupt 4 off", "full-disk all off",
		"clock-skew all -1h", "slow all 2MiB/s", "latency 1s"} {
		s, err := script.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		before.with(s)
		if got := before.of(4, idsOf(5)); !reflect.DeepEqual(got, said) {
			t.Errorf("%s changed what was before to %+v", line, got)
		}
	}
}

// TestFaultsAreTaken: what the language can say is within what a node takes.
func TestFaultsAreTaken(t *testing.T) {
	t.Parallel()
	c := after(t, "latency 10s ±5s; loss 100%; slow all 1KiB/s; clock-skew 1 +9600h; clock-skew 2 -9600h; partition 1")
	for i := 1; i <= 5; i++ {
		if err := c.of(i, idsOf(5)).Validate(); err != nil {
			t.Error(err)
		}
	}
	if f := c.of(1, make([]api.ID, 5)); len(f.Links) != 0 {
		t.Errorf("links to nodes that never started: %+v", f.Links)
	}
}
