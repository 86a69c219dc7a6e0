package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestResolve serves answers that are remembered, and those that need a search.
func TestResolve(t *testing.T) {
	t.Parallel()
	n := start(t)
	known, found := b3.Sum([]byte("known")), b3.Sum([]byte("found"))
	n.index.known = map[b3.Root]api.Resolved{known: resolvedBy(known, "cache", "a", "b")}
	n.index.find = map[b3.Root]api.Resolved{
		known: resolvedBy(known, "dht", "a"), found: resolvedBy(found, "dht", "c"),
	}
	base := n.Addrs().Gateway
	for _, c := range []struct {
		path     string
		root     b3.Root
		source   string
		peers    []string
		searches []api.Query
		cached   string
	}{
		{"/resolve/" + known.String(), known, "cache", []string{"a", "b"}, nil, "public, max-age=8"},
		{"/providers/" + known.String(), known, "cache", []string{"a", "b"}, nil, "public, max-age=8"},
		{"/resolve/" + found.String(), found, "dht", []string{"c"}, []api.Query{{}}, "public, max-age=8"},
		{"/providers/" + found.String() + "?limit=7&region=eu&min_freshness=1h", found, "dht", []string{"c"},
			[]api.Query{{Limit: 7, Region: "eu", MinFreshness: time.Hour, All: true}}, "public, max-age=8"},
		{"/resolve/" + known.String() + "?fresh=true", known, "dht", []string{"a"},
			[]api.Query{{Fresh: true}}, "no-store"},
	} {
		a := do(t, "GET", base+c.path)
		var got api.Resolved
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatalf("%s: %s %s", c.path, a.Status, a.body)
		}
		var peers []string
		for _, p := range got.Providers {
			peers = append(peers, p.ID)
		}
		if got.Key != c.root.String() || got.Source != c.source || !slices.Equal(peers, c.peers) || got.AgeMS != 1500 ||
			got.LookupID != "00000000000000ff" {
			t.Errorf("%s: %s", c.path, a.body)
		}
		if resolve := strings.HasPrefix(c.path, "/resolve/"); resolve != (got.Target == c.root && got.TTLMS == 8500 &&
			got.Confidence == api.Signed) {
			t.Errorf("%s: %s", c.path, a.body)
		}
		if got := a.Header.Get("Cache-Control"); got != c.cached || a.Header.Get("X-Corr-ID") == "" {
			t.Errorf("%s: Cache-Control %q, X-Corr-ID %q", c.path, got, a.Header.Get("X-Corr-ID"))
		}
		if got := n.index.searched(); !slices.Equal(got, c.searches) {
			t.Errorf("%s: searched %+v", c.path, got)
		}
		head := do(t, "HEAD", base+c.path)
		if head.StatusCode != http.StatusOK || head.body != "" || head.ContentLength != int64(len(a.body)) {
			t.Errorf("HEAD %s: %s, %d bytes", c.path, head.Status, head.ContentLength)
		}
		n.index.searched()
	}
}

// TestResolveConditions: an answer that names the same providers has the same tag,
// whatever its age.
func TestResolveConditions(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := b3.Sum([]byte("x"))
	url := n.Addrs().Gateway + "/resolve/" + root.String()
	set := func(a api.Resolved) {
		n.index.mu.Lock()
		defer n.index.mu.Unlock()
		n.index.known = map[b3.Root]api.Resolved{root: a}
	}
	set(resolvedBy(root, "dht", "a", "b"))
	tag := do(t, "GET", url).Header.Get("ETag")
	later := resolvedBy(root, "cache", "a", "b")
	later.AgeMS, later.TTLMS, later.LookupID = 3000, 7000, "0000000000000001"
	set(later)
	if a := do(t, "GET", url, "If-None-Match", tag); a.StatusCode != http.StatusNotModified || a.body != "" ||
		a.Header.Get("Cache-Control") != "public, max-age=7" {
		t.Errorf("%q: %s %v", tag, a.Status, a.Header)
	}
	for _, other := range [][]string{{"b", "a"}, {"a"}, {"a", "c"}} {
		set(resolvedBy(root, "cache", other...))
		if a := do(t, "GET", url, "If-None-Match", tag); a.StatusCode != http.StatusOK {
			t.Errorf("%q: %s", other, a.Status)
		}
	}
	if a := do(t, "GET", url, "If-Match", `"x"`); a.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("If-Match: %s", a.Status)
	}
	upper := strings.ToUpper(root.Hex())
	a := do(t, "GET", n.Addrs().Gateway+"/providers/b3:"+upper+"?limit=2")
	if to := a.Header.Get("Location"); a.StatusCode != http.StatusPermanentRedirect ||
		to != "/providers/"+root.String()+"?limit=2" {
		t.Errorf("uppercase digits: %s to %q", a.Status, to)
	}
}

// TestResolveNeedsAPermit: a search takes a permit of gateway.misses, a remembered
// answer does not, and the request's own timeout ends the wait.
func TestResolveNeedsAPermit(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Content.Fetches = 1 })
	known, absent := b3.Sum([]byte("known")), b3.Sum([]byte("absent"))
	n.index.known = map[b3.Root]api.Resolved{known: resolvedBy(known, "cache", "a")}
	n.index.gate = make(chan struct{})
	base := n.Addrs().Gateway
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := do(t, "GET", base+"/resolve/"+absent.String()); a.StatusCode != http.StatusNotFound {
			t.Errorf("the search that waits: %s", a.Status)
		}
	})
	testkit.Eventually(t, "a search", func() bool { return len(n.index.searched()) == 1 })
	if a := do(t, "GET", base+"/resolve/"+known.String()); a.StatusCode != http.StatusOK {
		t.Errorf("a remembered answer: %s", a.Status)
	}
	for _, path := range []string{
		"/resolve/" + known.String() + "?fresh=true", "/providers/" + absent.String(),
	} {
		a := do(t, "GET", base+path, "Request-Timeout", "0.02")
		if a.Header.Get("X-Reason") != status.Timeout.String() {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
	if got := n.index.searched(); len(got) != 0 {
		t.Errorf("searched without a permit: %+v", got)
	}
	close(n.index.gate)
	wg.Wait()
	for _, l := range n.limits.Snapshot() {
		if l.Name == "gateway.misses" && l.Current != 0 {
			t.Errorf("%d permits are held", l.Current)
		}
	}
}

// TestResolveIsDenied: the denylist is asked before the node.
func TestResolveIsDenied(t *testing.T) {
	t.Parallel()
	var denied b3.Root
	n, _, _ := denying(t, false, func(o *fakeObjects) []string {
		denied = o.put([]byte("denied"))
		return []string{denied.String()}
	})
	n.index.known = map[b3.Root]api.Resolved{denied: resolvedBy(denied, "cache", "a")}
	for _, path := range []string{"/resolve/", "/providers/"} {
		a := do(t, "GET", n.Addrs().Gateway+path+denied.String())
		if a.StatusCode != http.StatusUnavailableForLegalReasons || strings.Contains(a.body, "192.0.2.1") {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
	if got := n.index.searched(); len(got) != 0 {
		t.Errorf("searched for what is denied: %+v", got)
	}
}

// BenchmarkResolve compares a remembered answer with a bare handler that returns the
// same bytes, both without a socket.
func BenchmarkResolve(b *testing.B) {
	root := b3.Sum([]byte("x"))
	n := newTestGateway(b, &fakeObjects{}, func(c *Config, _ *server.AdminConfig) { c.Rate = 0 })
	n.index.known = map[b3.Root]api.Resolved{root: resolvedBy(root, "cache", "a", "b", "c", "d", "e")}
	path := "/resolve/" + root.String()
	body := serve(n.Handler(server.Public), "GET", path, "192.0.2.1:1", nil).Body.Bytes()
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	for name, h := range map[string]http.Handler{"gateway": n.Handler(server.Public), "bare": bare} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if rec := serve(h, "GET", path, "192.0.2.1:1", nil); rec.Code != http.StatusOK {
					b.Fatal(rec.Code)
				}
			}
		})
	}
}

// TestResolveName serves what a name stands for, with the records that say so.
func TestResolveName(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := b3.Sum([]byte("found"))
	n.index.find = map[b3.Root]api.Resolved{root: resolvedBy(root, "dht", "c")}
	var got api.Resolved
	a := do(t, "GET", n.Addrs().Gateway+"/resolve/blog.alice?limit=3")
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.StatusCode != http.StatusOK ||
		got.Key != "blog.alice" || got.Target != root || got.Path != "site" ||
		len(got.Chain) != 1 || got.Chain[0].Seq != 7 {
		t.Errorf("%s %s, %v", a.Status, a.body, err)
	}
	byAddress := do(t, "GET", n.Addrs().Gateway+"/resolve/"+root.String()+"?limit=3")
	if tag := a.Header.Get("ETag"); tag == "" || tag == byAddress.Header.Get("ETag") {
		t.Errorf("the ETag of a name is %q, that of the address %q", tag, byAddress.Header.Get("ETag"))
	}
	n.index.searched()
	for _, ask := range [][]string{
		{"/resolve/blog.alice?max_stale=90s", ""}, {"/resolve/blog.alice", "max-stale=90"},
		{"/resolve/blog.alice?max_stale=10s", "max-stale=90"}, {"/resolve/blog.alice?max_stale=90s", "max-stale=10"},
	} {
		if a := do(t, "GET", n.Addrs().Gateway+ask[0], "Cache-Control", ask[1]); a.Header.Get("Age") != "1" ||
			!strings.Contains(a.body, `"stale":true`) {
			t.Errorf("%s: %s, Age %q, %s", ask, a.Status, a.Header.Get("Age"), a.body)
		}
		if got := n.index.searched(); len(got) != 1 || got[0].MaxStale != 90*time.Second {
			t.Errorf("%s: searched %+v", ask, got)
		}
	}
	for path, code := range map[string]int{
		"/resolve/blog.alice?max_stale=1h&fresh=true": 400, "/providers/" + root.String() + "?max_stale=1h": 400,
		"/resolve/nothing.alice": 404, "/resolve/blog.alice?limit=33": 400, "/resolve/blog.alice?x=1": 400,
		"/providers/blog.alice": 400,
	} {
		if a := do(t, "GET", n.Addrs().Gateway+path); a.StatusCode != code || a.Header.Get("X-Reason") == "" {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
}
