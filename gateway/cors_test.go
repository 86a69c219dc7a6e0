package gateway

import (
	"slices"
	"testing"

	"allium/gateway/server"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// TestCrossOrigin: nobody else's page reads anything unless it is configured, and
// none ever writes.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	for name, c := range map[string]struct {
		origins []string
		asking  string
		want    string
		vary    bool
	}{
		"not configured": {nil, app, "", false},
		"listed":         {[]string{"http://x.example:8080", app}, app, app, true},
		"not listed":     {[]string{app}, "https://app.example.evil.example", "", true},
		"no origin":      {[]string{app}, "", "", true},
		"opaque":         {[]string{app}, "null", "", true},
		"everybody":      {[]string{"*"}, "null", "*", false},
	} {
		n := start(t, func(cfg *Config, _ *server.AdminConfig) { cfg.CORSOrigins = c.origins })
		root := n.objects.put([]byte("hello"))
		for _, path := range []string{
			"/o/" + root.String(), "/o/" + root.String() + "?format=bao", "/o/b3:no", "/verify.mjs",
		} {
			var headers []string
			if c.asking != "" {
				headers = []string{"Origin", c.asking}
			}
			a := do(t, "GET", n.Addrs().Gateway+path, headers...)
			if got := a.Header.Get("Access-Control-Allow-Origin"); got != c.want ||
				(a.Header.Get("Access-Control-Expose-Headers") != "") != (c.want != "") {
				t.Errorf("%s: %s: %q, want %q", name, path, got, c.want)
			}
			if got := slices.Contains(a.Header.Values("Vary"), "Origin"); got != c.vary {
				t.Errorf("%s: %s: Vary %q", name, path, a.Header.Values("Vary"))
			}
		}
		a := do(t, "OPTIONS", n.Addrs().Gateway+"/o/"+root.String(), "Origin", app,
			"Access-Control-Request-Method", "PUT")
		if a.Header.Get("Access-Control-Allow-Methods") != "" || a.Header.Get("Access-Control-Allow-Headers") != "" {
			t.Errorf("%s: a preflight: %s", name, a.Status)
		}
		if a := do(t, "GET", n.Addrs().Admin+"/version", "Origin",
			app); a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: the admin listener allows %q", name, a.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	for _, bad := range []string{"app.example", "https://app.example/", "ftp://x", "", "null"} {
		cfg := DefaultConfig()
		cfg.CORSOrigins = []string{bad}
		if err := cfg.Validate(); status.Of(err) != status.BadRequest {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestOpenProofs: pages of every origin read what proves itself, where the client came over the Internet, and nothing
// else.
func TestOpenProofs(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	ask := func(n *testNode, from, path string, headers ...string) string {
		t.Helper()
		a := do(t, "GET", n.Addrs().Gateway+path, append(headers, "Origin", app, "X-Forwarded-For", from)...)
		return a.Header.Get("Access-Control-Allow-Origin")
	}
	var cfg Config
	n := start(t, func(c *Config, _ *server.AdminConfig) {
		c.TrustedProxies = []string{"127.0.0.1"}
		cfg = *c
	})
	object := "/o/" + n.objects.put([]byte("hello")).String()
	for from, want := range map[string]string{
		"8.8.8.8": "*", "2001:4860:4860::8888": "*", "::ffff:8.8.8.8": "*",
		"127.0.0.1": "", "10.1.2.3": "", "192.168.1.2": "", "172.16.0.1": "", "169.254.1.1": "", "100.64.0.1": "",
		"::1": "", "fd00::1": "", "fe80::1": "", "::ffff:10.0.0.1": "", "0.0.0.0": "", "nonsense": "",
	} {
		for path, want := range map[string]string{
			object + "?format=bao": want, object + "?format=bao&bytes=0-1": want, object + "?format=bao&bytes=9-": want,
			object: "", object + "?format=tar": "", "/b3/" + object[3:]: "", "/verify.mjs": "", "/": "",
		} {
			if got := ask(n, from, path); got != want {
				t.Errorf("from %s, %s: %q, want %q", from, path, got, want)
			}
		}
		if got := ask(n, from, object, "Accept", bao.MediaType); got != "" {
			t.Errorf("from %s, by Accept: %q", from, got)
		}
	}
	cfg.Content.OpenProofs = false
	n.Reconfigure(cfg)
	if got := ask(n, "8.8.8.8", object+"?format=bao"); got != "" {
		t.Errorf("closed: %q", got)
	}
	// Nobody is believed who may not speak for others.
	if got := ask(start(t), "8.8.8.8", object+"?format=bao"); got != "" {
		t.Errorf("no proxy: %q", got)
	}
}
