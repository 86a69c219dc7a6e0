package gateway

import (
	"net/http"
	"strings"
	"testing"

	"allium/gateway/policy/audit"
	"allium/protocols/b3"
)

// TestNameIsBound: a capability for names that begin with something publishes and withdraws those
// alone, whatever form of the name is in the request; the audit log has the whole name.
func TestNameIsBound(t *testing.T) {
	t.Parallel()
	caps := newMinted(t)
	log := &fakeAudit{state: func() int { return 0 }}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities, d.Audit = caps, log }})
	api, other := n.Addrs().Admin+"/api/v1/name/", b3.Sum([]byte("other")).String()
	for _, c := range []struct {
		caveat, verb, body string
		allowed            bool
	}{
		{"op in publish", "publish", `{"name":"blog","value":"x"}`, true},
		{"op in announce", "publish", `{"name":"blog","value":"x"}`, false},
		{"name ^= blog.k51", "publish", `{"name":"blog","value":"x"}`, true},
		{"name ^= blog.k51", "withdraw", `{"name":"blog"}`, true},
		{"name ^= docs.", "publish", `{"name":"blog","value":"x"}`, false},
		{"name ^= docs.", "withdraw", `{"name":"blog"}`, false},
		{"name ^= blog.k52", "publish", `{"name":"blog","value":"x"}`, false},
		{"obj ^= " + other, "publish", `{"name":"blog","value":"` + other + `"}`, true},
		{"obj ^= " + other, "publish", `{"name":"blog","value":"` + other + `/a"}`, false},
		{"obj ^= " + other, "publish", `{"name":"blog","value":"` + fakeRoot.String() + `"}`, false},
		{"obj ^= " + other, "publish", `{"name":"blog","value":"x"}`, false},
	} {
		log.take()
		before := len(n.node.calls())
		a := doBody(t, "POST", api+c.verb, strings.NewReader(c.body), caps.mint(t, c.caveat)...)
		want := http.StatusForbidden
		if c.allowed {
			want = http.StatusOK
		}
		if a.StatusCode != want {
			t.Errorf("%s: %s %s: %s", c.caveat, c.verb, c.body, a.Status)
		}
		done := false
		for _, call := range n.node.calls()[before:] {
			done = done || strings.HasPrefix(call, "publish") || strings.HasPrefix(call, "withdraw")
		}
		if done != c.allowed {
			t.Errorf("%s: %s %s: done is %v", c.caveat, c.verb, c.body, done)
		}
		events, _ := log.take()
		if c.allowed && (events[0].Kind != audit.Mutation || events[0].Name != "blog.k51" ||
			events[0].Op != "publish") {
			t.Errorf("%s: %+v", c.verb, events[0])
		}
	}
}

// TestPublishOnce: a request with an Idempotency-Key publishes once.
func TestPublishOnce(t *testing.T) {
	t.Parallel()
	n := start(t)
	before := len(n.node.calls())
	for range 2 {
		a := doBody(t, "POST", n.Addrs().Admin+"/api/v1/name/publish", strings.NewReader(`{"name":"blog","value":"x"}`),
			"Authorization", "Bearer may-publish", "Idempotency-Key", "k1")
		if a.StatusCode != http.StatusOK {
			t.Fatal(a.Status)
		}
	}
	published := 0
	for _, call := range n.node.calls()[before:] {
		if strings.HasPrefix(call, "publish") {
			published++
		}
	}
	if published != 1 {
		t.Errorf("published %d times", published)
	}
}
