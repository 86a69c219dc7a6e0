package gateway

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/server"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/status"
)

func nothingReady() api.Readiness { return api.Readiness{} }

func TestInflightLimit(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Inflight = 1 })
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	fast := n.objects.put([]byte("fast"))

	first := make(chan answer, 1)
	go func() { first <- do(t, "GET", n.Addrs().Gateway+"/o/"+slow.String()) }()
	testkit.Eventually(t, "one open object", func() bool {
		n.objects.mu.Lock()
		defer n.objects.mu.Unlock()
		return len(n.objects.opens) == 1
	})

	p := do(t, "GET", n.Addrs().Gateway+"/o/"+fast.String()).problem(t, status.Busy)
	if p.Limit != "gateway.inflight" || p.Cap != 1 || p.Current != 1 || p.RetryAfterMS == 0 {
		t.Errorf("%+v", p)
	}
	if got := n.rejected("busy"); got != 1 {
		t.Errorf("%d rejected", got)
	}
	// What waits for nothing is answered all the same.
	for _, page := range []string{"/healthz", "/readyz"} {
		if a := do(t, "GET", n.Addrs().Gateway+page); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", page, a.Status)
		}
	}
	close(gate)
	if a := <-first; a.body != "slow" {
		t.Errorf("%s %q", a.Status, a.body)
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/o/"+fast.String()); a.body != "fast" {
		t.Errorf("%s %q", a.Status, a.body)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Rate, c.Burst, c.RateWait = 1, 2, 0 })
	root := n.objects.add(&fakeObject{data: []byte("x"), remote: true}) // what is here is free for one who is alone
	var refused answer
	for i := 0; i < 1000 && (i == 0 || refused.StatusCode == http.StatusOK); i++ { // until a second has more of them
		refused = do(t, "GET", n.Addrs().Gateway+"/o/"+root.String())
	}
	p := refused.problem(t, status.RateLimit)
	if p.Limit != "gateway.rate" || refused.Header.Get("Retry-After") == "0" {
		t.Errorf("%+v, Retry-After %q", p, refused.Header.Get("Retry-After"))
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/healthz"); a.StatusCode != http.StatusOK {
		t.Errorf("%s", a.Status)
	}
	if a := do(t, "GET", n.Addrs().Admin+"/limits"); a.StatusCode != http.StatusOK {
		t.Errorf("%s", a.Status)
	}
}

// TestConnectionLimits: what is over a bound is closed, while those within it
// are in requests.
func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	for reason, limit := range map[string]option{
		"conns":        func(c *Config, _ *server.AdminConfig) { c.Conns = 2 },
		"conns_per_ip": func(c *Config, _ *server.AdminConfig) { c.ConnsPerIP = 2 },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			n := start(t, limit)
			gate := make(chan struct{})
			slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
			defer close(gate)
			var held []net.Conn
			for range 2 {
				c := dialRaw(t, n)
				held = append(held, c)
				if _, err := io.WriteString(c, "GET /o/"+slow.String()+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Eventually(t, "two requests in flight", func() bool { return n.InFlight() == 2 })
			if b := healthOver(n); b != "" {
				t.Errorf("the third got %q", b)
			}
			if got := n.rejected(reason); got != 1 {
				t.Errorf("%d rejected", got)
			}
			held[0].Close()
			testkit.Eventually(t, "a connection gets its answer", func() bool { return healthOver(n) != "" })
		})
	}
}

// healthOver asks for /healthz over a new connection: the answer, or nothing
// when the connection is refused or reset at whatever moment.
func healthOver(n *testNode) string {
	c, err := net.Dial("tcp", strings.TrimPrefix(n.Addrs().Gateway, "http://"))
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, "GET /healthz HTTP/1.0\r\n\r\n")
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]option{
		"no port":                  func(c *Config, _ *server.AdminConfig) { c.Listen = "127.0.0.1" },
		"no inflight":              func(c *Config, _ *server.AdminConfig) { c.Inflight = 0 },
		"no rate":                  func(c *Config, _ *server.AdminConfig) { c.Rate = -1 },
		"more than can be counted": func(c *Config, _ *server.AdminConfig) { c.ConnsPerIP = 1<<20 + 1 },
		"less than none":           func(c *Config, _ *server.AdminConfig) { c.InflightPerIP = -1 },
		"no such proxy": func(c *Config, _ *server.AdminConfig) {
			c.TrustedProxies = []string{"proxy.example.org"}
		},
		"no burst":      func(c *Config, _ *server.AdminConfig) { c.Burst = 0 },
		"no patience":   func(c *Config, _ *server.AdminConfig) { c.Content.FirstByteTimeout = 0 },
		"public admin":  func(_ *Config, a *server.AdminConfig) { a.Listen = "0.0.0.0:9600" },
		"any admin":     func(_ *Config, a *server.AdminConfig) { a.Listen = ":9600" },
		"admin by name": func(_ *Config, a *server.AdminConfig) { a.Listen = "example.org:9600" },
		"wild host":     func(_ *Config, a *server.AdminConfig) { a.Hosts = []string{"*"} },
	} {
		cfg, admin := DefaultConfig(), server.DefaultAdminConfig()
		change(&cfg, &admin)
		_, err := New(cfg, admin,
			Deps{Objects: &fakeObjects{}, Index: &fakeIndex{}, Node: &fakeNode{}, Ready: nothingReady})
		if status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(DefaultConfig(), server.DefaultAdminConfig(), Deps{}); err == nil {
		t.Error("no Deps")
	}
}

// TestPortInUse: a node that cannot listen says which key to set, and leaves
// nothing open.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg, admin := DefaultConfig(), server.DefaultAdminConfig()
	cfg.Listen, admin.Listen = "127.0.0.1:0", taken.Addr().String()
	g, err := New(cfg, admin,
		Deps{Objects: &fakeObjects{}, Index: &fakeIndex{}, Node: &fakeNode{}, Ready: nothingReady})
	if err != nil {
		t.Fatal(err)
	}
	err = g.Run(t.Context(), func() { t.Error("ready") })
	if status.Of(err) != status.Conflict || g.Addrs() != (server.Addrs{}) {
		t.Errorf("%v, %+v", err, g.Addrs())
	}
}

func TestLimitsAreListed(t *testing.T) {
	t.Parallel()
	reg := limits.NewRegistry(nil)
	_, err := New(DefaultConfig(), server.DefaultAdminConfig(), Deps{
		Env: env.Env{Limits: reg}, Objects: &fakeObjects{}, Index: &fakeIndex{}, Node: &fakeNode{}, Ready: nothingReady,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{
		"gateway.inflight": 512, "gateway.inflight_per_ip": 128, "gateway.misses": 128, "gateway.rate": 500,
		"gateway.rate_waiting": 1024, "gateway.rate_waiting_bytes": 4 << 20,
		"gateway.conns":         4096,
		"gateway.misses_per_ip": 64, "gateway.transfers": 4096, "gateway.listings": 256, "gateway.encoders": 16,
		"gateway.misses_per_ip_waiting": 512, "gateway.conns_per_ip": 256,
		"gateway.archives": 64,
		"gateway.renders":  96 << 20, "gateway.page_bytes": 24 << 20, "gateway.uploads": 64, "gateway.decoders": 16,
		"gateway.lingering": 256, "gateway.links": 64, "gateway.link_guesses": 4096,
		"gateway.kinds": 4096, "gateway.directories": 16 << 20, "gateway.name_dates": 4096,
		"gateway.domains": 4096, "gateway.hashed_hosts": 4096, "gateway.site_rules": 16 << 20,
		"admin.inflight": 64, "admin.events": 16, "admin.conns": 256, "admin.socket_conns": 256,
		"admin.idempotency_keys": 1024, "admin.profiles": 1,
	}
	for _, l := range reg.Snapshot() {
		if l.Capacity != want[l.Name] {
			t.Errorf("%s: %d, want %d", l.Name, l.Capacity, want[l.Name])
		}
		delete(want, l.Name)
	}
	if len(want) != 0 {
		t.Errorf("not listed: %v", want)
	}
}
