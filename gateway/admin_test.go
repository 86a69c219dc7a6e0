package gateway

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/status"
)

func TestAdminPages(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Admin
	do(t, "GET", n.Addrs().Gateway+"/nothing")
	if a := do(t, "GET", base+"/healthz"); a.body != "ok\n" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%q", a.body)
	}
	version := `{"version":"v0","commit":"c0","modified":false,"go":"go1","os":"linux","arch":"amd64"}` + "\n"
	if a := do(t, "GET", base+"/version"); a.body != version {
		t.Errorf("%q", a.body)
	}
	metrics := do(t, "GET", base+"/metrics").body
	for _, want := range []string{
		`request_latency_seconds_count{route="none"} 1`, `inflight_requests{route="metrics"} 1`,
		`rejected_total{reason="not_found"} 1`,
		`queue_depth{queue="gateway.inflight"} 0`, `busy_rejections_total{endpoint="gateway.rate"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in %s", want, metrics)
		}
	}
	var limits api.Limits
	if err := json.Unmarshal([]byte(do(t, "GET", base+"/limits").body), &limits); err != nil || len(limits.Limits) < 6 {
		t.Errorf("%+v, %v", limits, err)
	}
	for _, page := range []string{"/o/x", "/b3/x", "/api/v1/", "/api/v1/nothing", "/api/v1/id/", "/metrics/"} {
		do(t, "GET", base+page).problem(t, status.NotFound)
	}
	if a := do(t, "GET", base+"/"); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/console/" {
		t.Errorf("/ answers %s to %q", a.Status, a.Header.Get("Location"))
	}
	for _, page := range []string{"/healthz", "/readyz", "/metrics", "/version", "/limits"} {
		if a := do(t, "HEAD", base+page); a.StatusCode != http.StatusOK || a.body != "" || a.err != nil {
			t.Errorf("HEAD %s: %s %q", page, a.Status, a.body)
		}
		do(t, "POST", base+page).problem(t, status.Method)
	}
	do(t, "GET", base+"/api/v1/drain").problem(t, status.Method)
	do(t, "HEAD", base+"/api/v1/id").problem(t, status.Method)
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.SlowRequest = time.Hour })
	for _, base := range []string{n.Addrs().Gateway, n.Addrs().Admin} {
		n.ready.set(api.Readiness{Ready: true, Reads: true, Writes: true, Network: true})
		if a := do(t, "GET", base+"/readyz"); a.StatusCode != http.StatusOK ||
			a.body != `{"ready":true,"reads":true,"writes":true,"network":true,"gates":[]}`+"\n" ||
			a.Header.Get("Retry-After") != "" {
			t.Errorf("%s %q", a.Status, a.body)
		}
		n.ready.set(api.Readiness{Reads: true, Gates: []api.Gate{
			{Name: "store", Ready: true, Have: 1, Need: 1},
			{Name: "seeds", Have: 1, Need: 3, RetryAfter: 5, Fix: "check listen.bootstrap"},
		}})
		a := do(t, "GET", base+"/readyz")
		want := `{"ready":false,"reads":true,"writes":false,"network":false,"gates":[{"name":"store","ready":true,` +
			`"have":1,"need":1,"retry_after":0},` +
			`{"name":"seeds","ready":false,"have":1,"need":3,"retry_after":5,"fix":"check listen.bootstrap"}]}` + "\n"
		if a.StatusCode != http.StatusServiceUnavailable || a.body != want || a.Header.Get("Retry-After") != "5" ||
			a.Header.Get("X-Reason") != "not_ready" {
			t.Errorf("%s %q %v", a.Status, a.body, a.Header)
		}
	}
	// Whoever probes a node asks every second: no is an answer, not a fault.
	testkit.Eventually(t, "two lines of the probe", func() bool {
		return strings.Count(n.log.String(), `level=DEBUG msg="http request" route=readyz method=GET status=503`) == 2
	})
}

// TestAdminHost: a web page that points a name of its own at this machine (DNS
// rebinding) gets nothing.
func TestAdminHost(t *testing.T) {
	t.Parallel()
	n := start(t, func(_ *Config, a *server.AdminConfig) { a.Hosts = []string{"node.example"} })
	base := n.Addrs().Admin
	_, port, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1:" + port, "localhost:" + port, "LocalHost", "node.example", "Node.Example:80",
	} {
		if a := do(t, "GET", base+"/version", "Host", host); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", host, a.Status)
		}
	}
	for _, host := range []string{
		"evil.example", "evil.example:" + port, "127.0.0.1.evil.example", "localhost.evil.example", "[::1]",
		"127.0.0.2", "node.example.",
	} {
		do(t, "GET", base+"/version", "Host", host).problem(t, status.NotAllowed)
		do(t, "GET", base+"/healthz", "Host", host).problem(t, status.NotAllowed)
	}
}

// TestAdminOrigin: what a browser sends for another site is refused, queries
// included; what it sends for the user or for our own pages is not.
func TestAdminOrigin(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Admin
	for _, c := range []struct {
		method, name, value string
		ok                  bool
	}{
		{"GET", "Sec-Fetch-Site", "cross-site", false},
		{"GET", "Sec-Fetch-Site", "same-site", false},
		{"GET", "Sec-Fetch-Site", "same-origin", true},
		{"GET", "Sec-Fetch-Site", "none", true},
		{"GET", "Origin", "http://evil.example", false},
		{"GET", "Origin", "null", false},
		{"GET", "Origin", "http://127.0.0.1:1", false},
		{"GET", "Origin", base, true},
		{"HEAD", "Origin", "http://evil.example", false},
		{"POST", "Sec-Fetch-Site", "cross-site", false},
		{"POST", "Sec-Fetch-Site", "same-origin", true},
		{"POST", "Origin", "http://evil.example", false},
		{"POST", "Origin", "null", false},
		{"POST", "Origin", base, true},
		{"POST", "X-Nothing", "curl", true},
	} {
		page := "/api/v1/id"
		if c.method == "POST" {
			page = "/api/v1/drain"
		}
		a := do(t, c.method, base+page, c.name, c.value, "Authorization", "Bearer may-drain")
		if !c.ok {
			a.problem(t, status.NotAllowed)
		} else if a.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s: %s %s", c.method, c.name, c.value, a.Status, a.body)
		}
		if a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Error("CORS is open")
		}
	}
}

// TestDiffOfNothing: a comparison of no keys is no answer.
func TestDiffOfNothing(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, query := range []string{"", "?from=", "?from=&to="} {
		do(t, "GET", n.Addrs().Admin+"/api/v1/diff"+query).problem(t, status.BadRequest)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	t.Parallel()
	n := start(t)
	for path, want := range map[string]os.FileMode{
		n.socket: 0o600 | os.ModeSocket, filepath.Dir(n.socket): 0o700 | os.ModeDir,
	} {
		fi, err := os.Lstat(path)
		if err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, fi.Mode(), err, want)
		}
	}
}

// TestStranger: the kernel's word on who connects keeps another user out.
func TestStranger(t *testing.T) {
	t.Parallel()
	n := start(t)
	// As root there is a stranger at hand.
	if os.Geteuid() == 0 {
		testStranger(t, n)
	}
}
