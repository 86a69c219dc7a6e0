package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"allium/internal/testkit"
)

// TestSchedules runs a node in every order of what may happen to it: each peer
// asks, in turn; each frame that a reader got, each handler and each write is
// held until the search lets it on, one at a time; a Drain, the end of its
// context, the end of Run, the deadlines of requests and a broken stream come at
// any point, or (but for the end of Run) not at all.
//
// The bound is the shape: so many peers with so many requests, one worker,
// ingress of two, egress frames as given. Between two actions goroutines run as
// they like until all wait, so a shape has no two that could race there: a
// stream that may break has a permit for every frame (else its reader, which
// waits for one, races with the writer that fails), and so has one with two
// requests unless it has one permit alone (else the reader's frame races with
// the writer that takes the next). Requests that expire in the queue are of
// different peers.
func TestSchedules(t *testing.T) {
	for _, tc := range []struct {
		shape
		short bool
	}{
		{shape{peers: 1, requests: 1, egress: 2, ends: true, drain: true, breaks: true, expires: true}, true},
		{shape{peers: 1, requests: 2, egress: 1, ends: true, drain: true, expires: true}, true},
		{shape{peers: 1, requests: 2, egress: 3, ends: true, drain: true, breaks: true}, false},
		{shape{peers: 2, requests: 1, egress: 1, drain: true}, true},
		{shape{peers: 2, requests: 1, egress: 2, drain: true, breaks: true}, false},
		{shape{peers: 2, requests: 2, egress: 1, drain: true}, false},
		{shape{peers: 2, requests: 2, egress: 2}, false},
	} {
		t.Run(tc.name(), func(t *testing.T) {
			if testing.Short() && !tc.short {
				t.Skip("too many orders")
			}
			t.Parallel()
			ends := map[string]bool{}
			f, err := explore(t, tc.shape, true, func(s *scenario) { ends[s.outcome()] = true })
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d orders of up to %d actions, %d states, %d outcomes", f.Orders, f.Longest, f.States, len(ends))
		})
	}
}

func (sh shape) name() string {
	name := fmt.Sprintf("%d peers, %d requests, egress %d", sh.peers, sh.requests, sh.egress)
	for _, it := range []struct {
		may  bool
		what string
	}{{sh.ends, "ends"}, {sh.drain, "drain"}, {sh.breaks, "breaks"}, {sh.expires, "expires"}} {
		if it.may {
			name += ", " + it.what
		}
	}
	return name
}

// TestSchedulesLeaveNothingOut: not going on twice from one state loses no
// outcome, so that the states are told apart as they must be.
func TestSchedulesLeaveNothingOut(t *testing.T) {
	shapes := []shape{
		{peers: 1, requests: 2, egress: 1, drain: true, expires: true},
		{peers: 1, requests: 1, egress: 2, drain: true, breaks: true},
		{peers: 2, requests: 1, egress: 1}, // of which one order stands for itself with the peers swapped
	}
	if testing.Short() {
		shapes = shapes[2:]
	}
	for _, sh := range shapes {
		t.Run(sh.name(), func(t *testing.T) {
			t.Parallel()
			search := func(merge bool) (testkit.Found, map[string]bool) {
				ends := map[string]bool{}
				f, err := explore(t, sh, merge, func(s *scenario) {
					ends[s.outcome()] = true
				})
				if err != nil {
					t.Fatal(err)
				}
				return f, ends
			}
			few, some := search(true)
			many, all := search(false)
			for end := range all {
				if !some[end] && (sh.breaks || !some[swapped(end)]) {
					t.Errorf("missed: %s", end)
				}
			}
			t.Logf("%d outcomes of %d orders, found by %d", len(all), many.Orders, few.Orders)
		})
	}
}

// TestSchedulesFindBugs: the search fails when something is wrong.
func TestSchedulesFindBugs(t *testing.T) {
	for b, want := range map[bug]string{
		twice:    "is answered 2 times",
		loses:    "was handled, has no answer and the stream was closed",
		jams:     "Run has not returned",
		overfill: "session.ingress has 2",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			sh := shape{peers: 1, requests: 2, egress: 2, bug: b}
			if b == overfill {
				sh.peers = 2
			}
			if f, err := explore(t, sh, true, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v after %d orders", err, f.Orders)
			} else {
				t.Logf("in order %d: %.200s", f.Orders, err)
			}
		})
	}
}

// swapped is an outcome in which two peers did what the other did.
func swapped(end string) string {
	parts := strings.Split(swap.Replace(end), "; ")
	slices.Sort(parts[1:])
	return strings.Join(parts, "; ")
}
