package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"allium/gateway/content"
	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// TestAddPinsOnlyWithPin: the local API pins over TCP for who may pin.
func TestAddPinsOnlyWithPin(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := n.Addrs().Admin + "/api/v1/add"
	for _, query := range []string{"", "?no_pin=false", "?label=l"} {
		doBody(t, "POST", page+query, strings.NewReader("tar"), "Authorization", "Bearer may-put").problem(t,
			status.Forbidden)
	}
	if got := n.node.calls(); len(got) != 0 {
		t.Errorf("the node was asked to %v", got)
	}
	for token, query := range map[string]string{"may-put": "?no_pin=true", "may-put,pin": ""} {
		if a := doBody(t, "POST", page+query, strings.NewReader("tar"), "Authorization",
			"Bearer "+token); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", token, a.Status, a.body)
		}
	}
}

// TestFetchIsNotBounded: a capability that is bounded in bytes does not bring in
// objects whose size nobody knows before.
func TestFetchIsNotBounded(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := n.Addrs().Admin + "/api/v1/fetch?key=" + fakeRoot.String()
	do(t, "POST", page, "Authorization", "Bearer may-fetch<=1000000").problem(t, status.Forbidden)
	if got := n.node.calls(); len(got) != 0 {
		t.Errorf("the node was asked to %v", got)
	}
	if a := do(t, "POST", page, "Authorization", "Bearer may-fetch"); a.StatusCode != http.StatusOK {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

// TestPresentIsHeldToBounds: what is here already is pinned neither for who says
// that it has another size nor for who may store less.
func TestPresentIsHeldToBounds(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Gateway
	root := n.objects.put(noise(1000))
	page := base + "/o/" + root.String()
	begin := []string{"Upload-Expect", root.String(), "Upload-Length"}
	sendBody(t, "POST", base+"/u", nil, append(begin, "5")...).problem(t, status.BadDigest)
	sendBody(t, "PUT", page, strings.NewReader("12345"), "Authorization", "Bearer may-put,pin<=999").problem(t,
		status.Forbidden)
	unknown := func() io.Reader { return io.MultiReader(strings.NewReader("of any length")) }
	sendBody(t, "PUT", page, unknown(), "Authorization", "Bearer may-put,pin<=999").problem(t, status.Forbidden)
	sendBody(t, "PUT", page, unknown(), "Authorization", "Bearer may-put,pin<=999",
		"Content-Encoding", "gzip").problem(t,
		status.Forbidden)
	if label, ok := n.sent.pinned(root); ok {
		t.Errorf("it is pinned as %q", label)
	}
	if a := sendBody(t, "PUT", page, unknown(), "Authorization",
		"Bearer may-put,pin<=1000"); a.StatusCode != http.StatusOK {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if _, ok := n.sent.pinned(root); !ok {
		t.Error("it is not pinned")
	}
}

// panicking opens nothing of the network's, and verifies nothing.
type panicking struct{ fakeObjects }

func (p *panicking) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	if !o.LocalOnly {
		panic("boom")
	}
	return p.fakeObjects.Open(ctx, root, o)
}

func (p *panicking) Verify(context.Context, string, capability.Request) (capability.Grant, error) {
	panic("boom")
}

// TestPanicGivesBack: a panic on the way keeps no permit.
func TestPanicGivesBack(t *testing.T) {
	t.Parallel()
	bad := &panicking{}
	n := startWith(t, hooks{deps: func(d *Deps) {
		d.Objects, d.Capabilities = bad, bad
	}}, func(c *Config, _ *server.AdminConfig) {
		c.Content.Fetches, c.Content.FetchesWaiting, c.Content.FetchesPerIP, c.Uploads = 1, 0, 1, 1
	})
	for range 3 {
		do(t, "GET", n.Addrs().Gateway+"/o/"+fakeRoot.String()).problem(t, status.Internal)
		doBody(t, "POST", n.Addrs().Gateway+"/o", strings.NewReader("x"), "Authorization", "Bearer may-put").problem(t,
			status.Internal)
	}
	testkit.Eventually(t, "no requests in flight", func() bool { return n.InFlight() == 0 })
}
