package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"allium/gateway/policy/audit"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestProfile: one profile is made at a time, each is in the audit log with its kind, and a client that
// leaves ends its own.
func TestProfile(t *testing.T) {
	t.Parallel()
	registry := limits.NewRegistry(nil)
	log := &fakeAudit{state: func() int { return 0 }}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Limits, d.Audit = registry, log }})
	at := n.Addrs().Admin + "/api/v1/profile?kind="
	const header, token = "Authorization", "Bearer may-profile"
	for query, want := range map[string]int{
		"heap": http.StatusOK, "what": http.StatusBadRequest, "": http.StatusBadRequest,
		"cpu&seconds=0": http.StatusBadRequest, "cpu&seconds=31": http.StatusBadRequest,
	} {
		if a := doBody(t, "POST", at+query, nil, header, token); a.StatusCode != want {
			t.Errorf("kind=%s: %s %s", query, a.Status, a.body)
		}
	}
	if a := doBody(t, "POST", at+"heap", nil, header, "Bearer may-pin"); a.StatusCode != http.StatusForbidden {
		t.Errorf("with another capability: %s", a.Status)
	}
	inUse := func() int64 {
		for _, l := range registry.Snapshot() {
			if l.Name == "admin.profiles" {
				return l.Current
			}
		}
		return -1
	}
	// A request leaves the gate after its answer.
	testkit.Eventually(t, "no profile is made", func() bool { return inUse() == 0 })
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, at+"mutex&seconds=30", strings.NewReader(""))
		req.Header.Set(header, token)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("a client that left got %s", resp.Status)
		}
	}()
	testkit.Eventually(t, "a profile is made", func() bool { return inUse() == 1 })
	a := doBody(t, "POST", at+"heap", nil, header, token)
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("X-Reason") != "busy" {
		t.Errorf("beside another one: %s %s", a.Status, a.body)
	}
	var of []audit.Event // of this profile: those before it may be recorded late
	recorded := func(n int) func() bool {
		return func() bool {
			events, _ := log.take()
			for _, e := range events {
				if e.Detail == "mutex" || e.Outcome == status.Canceled.String() {
					of = append(of, e)
				}
			}
			return len(of) >= n
		}
	}
	testkit.Eventually(t, "its record", recorded(1)) // it holds the gate before it is recorded
	leave()
	<-done
	testkit.Eventually(t, "its end", func() bool { return inUse() == 0 })
	testkit.Eventually(t, "the record of its end", recorded(2))
	if m := of[0]; m.Kind != audit.Mutation || m.Op != "profile" {
		t.Errorf("recorded as %+v", m)
	}
	if o := of[1]; o.Kind != audit.Outcome {
		t.Errorf("ended as %+v", o)
	}
	if a := doBody(t, "POST", at+"heap", nil, header, token); a.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s %s", a.Status, a.body)
	}
}
