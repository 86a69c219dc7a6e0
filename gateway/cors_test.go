package gateway

import (
	"slices"
	"testing"

	"allium/gateway/server"
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
