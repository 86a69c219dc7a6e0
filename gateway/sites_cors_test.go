package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"allium/gateway/content"
	"allium/gateway/hosts"
	"allium/gateway/server"
)

// openedSite is a site whose author lets pages of other origins read some of it.
var openedSite = map[string]string{
	"index.html": "home", "api/data.json": `{"x":1}`, "part/a.txt": "part", "closed.txt": "closed",
	"_redirects": "/v1/* /api/:splat 200\n/moved /api/data.json 301\n/api/old /api/data.json 302\n",
	"_headers": "/api/*\n  Access-Control-Allow-Origin: *\n  Access-Control-Allow-Headers: X-App, If-None-Match\n" +
		"  Access-Control-Allow-Methods: GET, HEAD\n  Access-Control-Max-Age: 600\n" +
		"/v1/*\n  Access-Control-Allow-Origin: https://app.example\n  Access-Control-Allow-Headers: X-App\n" +
		"  Access-Control-Allow-Credentials: true\n" +
		"/part/*\n  Access-Control-Allow-Origin: *\n",
}

// corsHeaders are the headers by which a browser decides about a page of another origin.
var corsHeaders = []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Headers",
	"Access-Control-Allow-Methods", "Access-Control-Allow-Credentials", "Access-Control-Max-Age"}

// TestPreflights: at the host of a website OPTIONS has the headers that the site has for the path, as GET does. The
// node's own pages answer no preflight.
func TestPreflights(t *testing.T) {
	t.Parallel()
	var cfg Config
	n, names := startSites(t, func(c *Config, _ *server.AdminConfig) { cfg = *c })
	open := n.objects.tree(t, openedSite)
	closed := n.objects.tree(t, map[string]string{"index.html": "home"})
	bad := n.objects.tree(t, map[string]string{"_headers": "/*\n  Set-Cookie: a=b"})
	cfg.Hosts.DNSLink = true
	cfg.Hosts.Sites = map[string]hosts.Site{"open": {Domain: "www.example.org", Key: open.String()}}
	n.Reconfigure(cfg)
	names.named["docs.alice"] = content.Named{Root: open, TTL: time.Minute}
	names.links["linked.example"] = open.String()
	base, file := n.Addrs().Gateway, hostOfRoot(n.objects.put([]byte("only a file")))
	api := []string{"*", "X-App, If-None-Match", "GET, HEAD", "", "600"}
	v1 := []string{"https://app.example", "X-App", "", "true", ""}
	part, none := []string{"*", "", "", "", ""}, make([]string, len(corsHeaders))
	for _, c := range []struct {
		host, path string
		code       int
		want       []string // the values of corsHeaders
	}{
		{hostOfRoot(open), "/api/data.json", 204, api}, {hostOfRoot(open), "/api/none", 204, api},
		{hostOfRoot(open), "/v1/data.json", 204, v1}, {hostOfRoot(open), "/part/a.txt?x=y", 204, part},
		{hostOfRoot(open), "/closed.txt", 204, none}, {hostOfRoot(open), "/", 204, none},
		{hostOfRoot(open), "", 204, none}, {hostOfRoot(open), "/moved", 204, none},
		{hostOfRoot(open), "/o/" + open.String(), 204, none}, {hostOfRoot(open), "/%2e%2e/x", 400, none},
		{hostOfRoot(closed), "/api/data.json", 204, none}, {file, "/", 204, none}, {file, "/x", 204, none},
		{"www.example.org", "/api/data.json", 204, api}, {"docs-alice.n3.localhost", "/api/data.json", 204, api},
		{"linked.example", "/api/data.json", 204, api}, {"LINKED.example.:8", "/part/", 204, part},
		{hostOfRoot(bad), "/api/x", 502, none},
		{"x.b3.localhost", "/api/x", 400, none}, {"not-there.n3.localhost", "/api/x", 404, none},
		{"none.example", "/healthz", 204, none}, {"none.example", "/api/data.json", 404, none},
		{"localhost", "/b3/" + open.String() + "/api/data.json", 204, none},
	} {
		a := do(t, "OPTIONS", base+c.path, "Host", c.host, "Origin", "https://app.example",
			"Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "x-app")
		if a.StatusCode != c.code || a.StatusCode == http.StatusNoContent &&
			a.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s%s: %s %v %s", c.host, c.path, a.Status, a.Header, a.body)
		}
		for i, name := range corsHeaders {
			if got := strings.Join(a.Header.Values(name), "|"); got != c.want[i] {
				t.Errorf("%s%s: %s is %q, want %q", c.host, c.path, name, got, c.want[i])
			}
		}
	}
	for path, want := range map[string][]string{"/moved": none, "/api/old": api, "/part": part, "/part//a.txt": part} {
		a := do(t, "GET", base+path, "Host", hostOfRoot(open), "Origin", "https://app.example")
		for i, name := range corsHeaders {
			if got := a.Header.Get(name); a.StatusCode/100 != 3 || got != want[i] {
				t.Errorf("%s: %s, %s is %q, want %q", path, a.Status, name, got, want[i])
			}
		}
	}
	a := do(t, "GET", base+"/v1/data.json", "Host", hostOfRoot(open), "Origin", "https://app.example")
	for i, name := range corsHeaders {
		if got := a.Header.Get(name); got != v1[i] {
			t.Errorf("GET: %s is %q, want %q", name, got, v1[i])
		}
	}
}

// TestBrowserPreflights: a page of another origin reads what the site's author lets it read, with a header that needs
// a preflight too, and nothing else.
func TestBrowserPreflights(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><title>other</title><link rel="icon" href="data:,">`))
	}))
	defer other.Close()
	n := start(t)
	root := n.objects.tree(t, openedSite)
	_, port, _ := strings.Cut(strings.TrimPrefix(n.Addrs().Gateway, "http://"), ":")
	site := "http://" + root.CID().String() + ".b3.localhost:" + port
	b := openBrowser(t)
	b.visit(t, chromedp.Navigate(other.URL))
	for _, c := range []struct{ path, options, want string }{
		{"/api/data.json", `{ headers: { "X-App": "1" } }`, `{"x":1}`},
		{"/api/data.json", `{}`, `{"x":1}`},
		{"/api/data.json", `{ headers: { "X-Other": "1" } }`, "refused"},
		{"/api/data.json", `{ method: "DELETE" }`, "refused"},
		{"/v1/data.json", `{ headers: { "X-App": "1" } }`, "refused"}, // of one other origin alone
		{"/api/old", `{}`, `{"x":1}`}, {"/moved", `{}`, "refused"},    // at each step of a redirect
		{"/part/a.txt", `{}`, "part"},
		{"/part/a.txt", `{ headers: { "X-App": "1" } }`, "refused"},
		{"/closed.txt", `{}`, "refused"},
		{"/closed.txt", `{ headers: { "X-App": "1" } }`, "refused"},
	} {
		got := see(t, b, chromedp.Evaluate[string](`fetch("`+site+c.path+`", `+c.options+
			`).then((r) => r.text()).catch(() => "refused")`, await))
		if got != c.want {
			t.Errorf("%s with %s: %q, want %q", c.path, c.options, got, c.want)
		}
	}
	b.said() // what was refused
}
