package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/hosts"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/name"
)

// zoneOfSites is the zone of names with hosts of their own.
var zoneOfSites = name.Zone{1, 2, 31: 7}

const zoneDigits = "00wjxo4m98i5f4fv5nyppihb8csc9oulzxu0bxksb22kv81wqv"

// website is a site with rules of its own.
var website = map[string]string{
	"index.html": "<h1>Home</h1>", "about.html": "<h1>About</h1>", "app.js": "let x = 1", "sw.js": "self.x = 1",
	"404.html": "<h1>Nothing</h1>", "docs/index.html": "docs", "docs/404.html": "no such doc", "docs/a.txt": "a",
	"files/b.txt": "b", "link": "-> docs/a.txt", "410.html": "gone",
	"site.json": `{"clean_urls":true}`,
	"_redirects": "/old /about 301\n/spa/* /index.html 200\n/out/* https://example.org/:splat 302\n" +
		"/gone /410.html 410\n/law /missing.html 451\n/loop /loop 301\n/x /y 200\n/y /x 200\n/about.html /no 301\n",
	"_headers": "/*\n  X-Frame-Options: DENY\n/docs/*\n  Cache-Control: max-age=7\n" +
		"  Access-Control-Allow-Origin: *\n  Content-Security-Policy: default-src 'self'\n",
}

// startSites starts a gateway with names and sites of its own.
func startSites(t testing.TB, opts ...option) (*testNode, *fakeNames) {
	names := &fakeNames{named: map[string]content.Named{}, asked: map[string]int{}, links: map[string]string{}}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Names = names }}, append([]option{
		func(c *Config, _ *server.AdminConfig) { c.Hosts.SubdomainHosts = []string{"gw.example.org"} },
	}, opts...)...)
	return n, names
}

// hostOfRoot returns the host of a root at localhost.
func hostOfRoot(root b3.Root) string { return root.CID().String() + ".b3.localhost:8080" }

// TestOrigins: at the host of a root its content is an origin, and at a path it stays in the sandbox.
func TestOrigins(t *testing.T) {
	t.Parallel()
	n, names := startSites(t)
	root := n.objects.tree(t, website)
	file := n.objects.put([]byte("only a file"))
	long := "a-very-long-label." + zoneOfSites.String()
	names.named["blog."+zoneOfSites.String()] = content.Named{Root: root, TTL: time.Minute}
	names.named[long] = content.Named{Root: root, Path: "docs", TTL: time.Minute}
	names.named["docs.alice"] = content.Named{Root: root, Path: "docs", TTL: time.Minute}
	base, at := n.Addrs().Gateway, hostOfRoot(root)
	for _, c := range []struct {
		host, path string
		code       int
		want       string // in the body, or the Location
	}{
		{at, "/", 200, "Home"}, {at, "", 200, "Home"}, {at, "/index.html", 200, "Home"},
		{at, "/?view=x&format=y", 200, "Home"},
		{strings.ToUpper(at), "/app.js", 200, "let x"}, {strings.TrimSuffix(at, ":8080") + ".", "/app.js", 200, "let x"},
		{strings.Replace(at, "localhost", "gw.example.org", 1), "/app.js", 200, "let x"},
		{at, "/about", 200, "About"}, {at, "/about/", 200, "About"}, {at, "/about.html", 200, "About"},
		{at, "/docs", 301, "/docs/"}, {at, "/docs/", 200, "docs"}, {at, "/docs?a=b", 301, "/docs/?a=b"},
		{at, "/link", 301, "/docs/a.txt"}, {at, "/files/", 200, "b.txt"}, {at, "/files/b.txt?view=preview", 200, "b3:"},
		{at, "/nothing", 404, "Nothing"}, {at, "/docs/nothing/x", 404, "no such doc"}, {at, "/docs/a.txt/", 404, "no such"},
		{at, "/old?q=1", 301, "/about?q=1"}, {at, "/spa/x/y", 200, "Home"},
		{at, "/out/a/b?c", 302, "https://example.org/a/b?c"},
		{at, "/gone", 410, "gone"}, {at, "/law", 451, "no such page"}, {at, "/loop", 404, "Nothing"},
		{at, "/x", 404, "Nothing"}, {at, "/%2e%2e/x", 400, "invalid segment"}, {at, "/..%2fx", 400, "invalid segment"},
		{at, "//docs/", 301, "/docs/"}, {at, "/docs//a.txt", 301, "/docs/a.txt"},
		{at, "/healthz", 404, "Nothing"}, {at, "/readyz", 404, "Nothing"}, {at, "/console/", 404, "Nothing"},
		{at, "/b3/" + root.String() + "/", 404, "Nothing"}, {at, "/o/" + file.String(), 404, "Nothing"},
		{hostOfRoot(file), "/", 200, "only a file"}, {hostOfRoot(file), "/x", 404, "one file"},
		{"blog-" + zoneDigits + ".n3.localhost:8080", "/docs/a.txt", 200, "a"},
		{"docs-alice.n3.localhost:8080", "/a.txt", 200, "a"},
		{"docs-alice.n3.localhost:8080", "/app.js", 404, "no such doc"},
		{"not-there.n3.localhost:8080", "/", 404, "no record"},
		{strings.Repeat("a", 52) + ".n3.localhost:8080", "/", 404, "does not remember"},
		{"x.b3.localhost:8080", "/", 400, "names no object"}, {"b3.localhost", "/", 400, "names no object"},
		{strings.Repeat("a", 64) + ".b3.localhost", "/", 400, "names no object"},
		{"x_y-z.n3.localhost", "/", 400, "names no name"}, {"x." + at, "/", 400, "names no object"},
		{"other.localhost:8080", "/healthz", 200, "ok"}, {"localhost:8080", "/healthz", 200, "ok"},
		{"evil.example", "/healthz", 200, "ok"}, {at + ".evil.example", "/healthz", 200, "ok"},
	} {
		a := do(t, "GET", base+c.path, "Host", c.host)
		got := a.body
		if a.StatusCode/100 == 3 {
			got = a.Header.Get("Location")
		}
		if a.StatusCode != c.code || !strings.Contains(got, c.want) ||
			a.StatusCode/100 == 3 && got != c.want {
			t.Errorf("%s%s: %s %.200q, want %d %q", c.host, c.path, a.Status, got, c.code, c.want)
		}
		if strings.Contains(a.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s%s: %s", c.host, c.path, a.Header)
		}
	}
	t.Run("archives", func(t *testing.T) {
		a := do(t, "GET", base+"/files/?format=tar", "Host", at)
		if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != exchange.MediaTar ||
			!strings.Contains(a.body, "b.txt") {
			t.Errorf("%s %v", a.Status, a.Header)
		}
		if page := do(t, "GET", base+"/files/", "Host", at); strings.Contains(page.body, "favicon.ico") {
			t.Error("the listing shows an icon that this host does not have")
		}
	})
	t.Run("headers", func(t *testing.T) {
		a := do(t, "GET", base+"/sw.js", "Host", at, "Service-Worker", "script")
		h := a.Header
		if a.StatusCode != http.StatusOK || h.Get("Content-Security-Policy") != "" ||
			h.Get("Cross-Origin-Resource-Policy") != "" ||
			h.Get("Origin-Agent-Cluster") != "?1" || h.Get("X-Frame-Options") != "DENY" ||
			h.Get("Cache-Control") != exchange.Immutable || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Access-Control-Allow-Origin") != "" || h.Get("Set-Cookie") != "" {
			t.Errorf("%s %v", a.Status, h)
		}
		a = do(t, "GET", base+"/docs/a.txt", "Host", at, "Origin", "https://app.example")
		if h := a.Header; h.Get("Cache-Control") != "max-age=7" || h.Get("Access-Control-Allow-Origin") != "*" ||
			h.Get("Content-Security-Policy") != "default-src 'self'" {
			t.Errorf("%v", h)
		}
		tag := a.Header.Get("ETag")
		if a = do(t, "GET", base+"/docs/a.txt", "Host", at, "If-None-Match", tag); a.StatusCode != http.StatusNotModified ||
			a.Header.Get("Cache-Control") != "max-age=7" {
			t.Errorf("%s %v", a.Status, a.Header)
		}
		if a = do(t, "GET", base+"/app.js", "Host", at, "Range", "bytes=0-2"); a.StatusCode != http.StatusPartialContent ||
			a.body != "let" {
			t.Errorf("%s %q", a.Status, a.body)
		}
		a = do(t, "GET", base+"/nothing", "Host", at, "Range", "bytes=0-2", "If-None-Match", "*")
		if a.StatusCode != http.StatusNotFound || a.Header.Get("ETag") != "" || a.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s %v", a.Status, a.Header)
		}
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			if a = do(t, method, base+"/o/"+file.String(), "Host", at); a.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s: %s", method, a.Status)
			}
		}
		if a = do(t, "HEAD", base+"/", "Host", at); a.StatusCode != http.StatusOK || a.Header.Get("Content-Length") != "13" {
			t.Errorf("%s %v", a.Status, a.Header)
		}
		a = do(t, "GET", base+"/b3/"+root.String()+"/sw.js", "Host", "127.0.0.1:8080", "Service-Worker", "script")
		if a.StatusCode != http.StatusForbidden {
			t.Errorf("a worker at a path: %s", a.Status)
		}
	})
	t.Run("hash", func(t *testing.T) {
		a := do(t, "GET", base+"/n/"+long+"/a.txt", "Host", "localhost:8080", "Accept", "text/html")
		host, rest, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("Location"), "//"), "/")
		if a.StatusCode != http.StatusMovedPermanently || len(host) != 52+len(".n3.localhost:8080") || rest != "a.txt" {
			t.Fatalf("%s %v", a.Status, a.Header)
		}
		junk := do(t, "GET", base+"/n/"+strings.Repeat("x", 300)+".y/", "Host", "localhost", "Accept", "text/html")
		if junk.StatusCode != http.StatusNotFound {
			t.Errorf("what is no name: %s %v", junk.Status, junk.Header)
		}
		if a = do(t, "GET", base+"/a.txt", "Host", host); a.body != "a" {
			t.Errorf("%s: %s %s", host, a.Status, a.body)
		}
	})
}

// TestToOrigins: a browser that opens a path is sent to the host of what the path names. Programs are not.
func TestToOrigins(t *testing.T) {
	t.Parallel()
	n, names := startSites(t)
	root := n.objects.tree(t, website)
	names.named["docs.alice"] = content.Named{Root: root, TTL: time.Minute}
	base, cid := n.Addrs().Gateway, root.CID().String()
	const accept = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		host, path, mode, accept, want string
	}{
		{"localhost:8080", "/b3/%s", "navigate", accept, "//" + cid + ".b3.localhost:8080/"},
		{"localhost:8080", "/b3/%s/docs/a%%20b?x=1&y", "", accept, "//" + cid + ".b3.localhost:8080/docs/a%20b?x=1&y"},
		{"LOCALHOST", "/b3/%s/docs/", "navigate", "", "//" + cid + ".b3.LOCALHOST/docs/"},
		{"gw.example.org:443", "/b3/%s/", "navigate", "", "//" + cid + ".b3.gw.example.org:443/"},
		{"localhost.:8080", "/b3/%s/", "navigate", "", "//" + cid + ".b3.localhost.:8080/"},
		{"localhost:8080", "/n/docs.alice/a.txt", "navigate", accept, "//docs-alice.n3.localhost:8080/a.txt"},
		{"localhost:8080", "/b3/%s/", "cors", accept, ""}, {"localhost:8080", "/b3/%s/", "no-cors", accept, ""},
		{"localhost:8080", "/b3/%s/", "", "*/*", ""}, {"localhost:8080", "/b3/%s/", "", "", ""},
		{"localhost:8080", "/o/%s", "navigate", accept, ""},
		{"127.0.0.1:8080", "/b3/%s/", "navigate", accept, ""}, {"[::1]:8080", "/b3/%s/", "navigate", accept, ""},
		{"other.example", "/b3/%s/", "navigate", accept, ""}, {"x.localhost", "/b3/%s/", "navigate", accept, ""},
	} {
		path := strings.ReplaceAll(strings.ReplaceAll(c.path, "%s", root.String()), "%%", "%")
		headers := []string{"Host", c.host, "Accept", c.accept}
		if c.mode != "" {
			headers = append(headers, "Sec-Fetch-Mode", c.mode)
		}
		a := do(t, "GET", base+path, headers...)
		switch {
		case c.want == "" && a.StatusCode != http.StatusOK:
			t.Errorf("%s%s: %s %s", c.host, path, a.Status, a.Header)
		case c.want != "" && (a.StatusCode != http.StatusMovedPermanently || a.Header.Get("Location") != c.want ||
			a.Header.Get("Vary") != "Accept, Sec-Fetch-Mode"):
			t.Errorf("%s%s: %s %v, want %s", c.host, path, a.Status, a.Header, c.want)
		}
	}
}

// TestSites: a host of gateway.sites is a website, a reload changes it, and others are the node's.
func TestSites(t *testing.T) {
	t.Parallel()
	var cfg Config
	n, names := startSites(t, func(c *Config, _ *server.AdminConfig) { cfg = *c })
	root := n.objects.tree(t, website)
	plain := n.objects.tree(t, map[string]string{"about.html": "plain about", "index.html": "plain"})
	names.named["docs.alice"] = content.Named{Root: root, TTL: 61 * time.Second}
	cfg.Hosts.Sites = map[string]hosts.Site{
		"docs": {Domain: "www.Example.org", Aliases: []string{"example.org"}, Key: root.String() + "/docs"},
		"name": {Domain: "bücher.example", Key: "docs.alice/docs"},
		"html": {Domain: "plain.example", Key: plain.String(), CleanURLs: true},
	}
	n.Reconfigure(cfg)
	base := n.Addrs().Gateway
	for _, c := range []struct {
		host, path   string
		code         int
		want, caches string
	}{
		{"www.example.org", "/a.txt", 200, "a", "public, max-age=60"},
		{"EXAMPLE.org:1", "/", 200, "docs", "public, max-age=60"},
		{"www.example.org.", "/app.js", 404, "no such doc", "no-cache"},
		{"xn--bcher-kva.example", "/a.txt", 200, "a", "public, max-age=61"},
		{"plain.example", "/about", 200, "plain about", "public, max-age=60"},
		{"plain.example", "/healthz", 404, "no such page", "no-store"},
		{"unknown.example", "/healthz", 200, "ok", "no-store"}, {"x.www.example.org", "/healthz", 200, "ok", "no-store"},
	} {
		a := do(t, "GET", base+c.path, "Host", c.host)
		if a.StatusCode != c.code || !strings.Contains(a.body, c.want) ||
			a.Header.Get("Cache-Control") != c.caches {
			t.Errorf("%s%s: %s %.100q %v", c.host, c.path, a.Status, a.body, a.Header)
		}
	}
	names.links["linked.example"] = root.String() + "/docs"
	at := strings.Replace(hostOfRoot(root), "localhost", "other.example", 1)
	cfg.Hosts = hosts.Config{DNSLink: true, SubdomainHosts: []string{"other.example"}}
	for _, changed := range []bool{false, true} {
		for host, site := range map[string]bool{
			"www.example.org": !changed, "linked.example": changed, at: changed, "plain.example": !changed,
		} {
			if a := do(t, "GET", base+"/healthz", "Host", host); (a.StatusCode == http.StatusNotFound) != site {
				t.Errorf("%s, changed %t: %s", host, changed, a.Status)
			}
		}
		n.Reconfigure(cfg)
	}
}

// TestDNSLink: a domain with a link is a website, and one without is the node's. The DNS is asked once in a while.
func TestDNSLink(t *testing.T) {
	t.Parallel()
	n, names := startSites(t, func(c *Config, _ *server.AdminConfig) { c.Hosts.DNSLink = true })
	root := n.objects.tree(t, website)
	names.named["docs.alice"] = content.Named{Root: root, Path: "docs", TTL: time.Minute}
	names.links["root.example"], names.links["name.example"] = root.String()+"/docs", "docs.alice"
	names.links["down.example"], names.links["bad.example"] = "down", "hello"
	base := n.Addrs().Gateway
	for _, c := range []struct {
		method, host, path string
		code               int
		want               string
	}{
		{"GET", "root.example", "/a.txt", 200, "a"}, {"GET", "Root.Example.:8", "/", 200, "docs"},
		{"GET", "root.example", "/healthz", 404, "no such doc"}, {"GET", "name.example", "/a.txt", 200, "a"},
		{"PUT", "root.example", "/o/" + root.String(), 405, ""},
		{"GET", "none.example", "/healthz", 200, "ok"}, {"GET", "none.example", "/", 200, "allium"},
		{"GET", "none.example", "/nothing", 404, "cannot find the page"},
		{"PUT", "none.example", "/o/" + root.String(), 401, ""},
		{"GET", "none.example", "/b3/" + root.String() + "/docs/a.txt", 200, "a"},
		{"GET", "down.example", "/", 504, "did not answer"}, {"GET", "bad.example", "/", 502, "neither address nor name"},
		{"GET", "127.0.0.1:80", "/healthz", 200, "ok"}, {"GET", "[::1]", "/healthz", 200, "ok"},
		{"GET", "single", "/healthz", 200, "ok"}, {"GET", "gw.example.org", "/healthz", 200, "ok"},
		{"GET", "x.gw.example.org", "/healthz", 200, "ok"}, {"GET", "300.1.2.3", "/healthz", 200, "ok"},
	} {
		a := do(t, c.method, base+c.path, "Host", c.host)
		if a.StatusCode != c.code || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s%s: %s %.200q", c.method, c.host, c.path, a.Status, a.body)
		}
	}
	names.mu.Lock()
	defer names.mu.Unlock()
	for _, host := range []string{"root.example", "none.example", "down.example"} {
		if names.asked[host] != 1 {
			t.Errorf("%s was asked %d times", host, names.asked[host])
		}
	}
	if names.asked["gw.example.org"]+names.asked["x.gw.example.org"]+names.asked["single"] > 0 {
		t.Errorf("asked %v", names.asked)
	}
}

// TestBadRules: a site with a faulty file is not served, and the error names the line.
func TestBadRules(t *testing.T) {
	t.Parallel()
	n, _ := startSites(t)
	for file, text := range map[string]string{
		"_redirects": "/a /b 200!", "_headers": "/*\n  Set-Cookie: a=b",
	} {
		root := n.objects.tree(t, map[string]string{"index.html": "x", file: text})
		a := do(t, "GET", n.Addrs().Gateway+"/", "Host", hostOfRoot(root))
		if a.StatusCode != http.StatusBadGateway || !strings.Contains(a.body, " of "+file) {
			t.Errorf("%s: %s %s", file, a.Status, a.body)
		}
	}
	root := n.objects.tree(t, map[string]string{"index.html": "x", "_redirects": strings.Repeat("#", 65<<10)})
	if a := do(t, "GET", n.Addrs().Gateway+"/", "Host", hostOfRoot(root)); a.StatusCode != http.StatusBadGateway {
		t.Errorf("too long: %s %s", a.Status, a.body)
	}
}

// TestDeniedSites: nothing that is denied is served at a host.
func TestDeniedSites(t *testing.T) {
	t.Parallel()
	var root, whole b3.Root
	n, _, _ := denying(t, false, func(o *fakeObjects) []string {
		root = o.tree(t, map[string]string{"index.html": "home", "secret.txt": "secret", "404.html": "secret too",
			"_redirects": "/alias /secret.txt 200"})
		whole = o.tree(t, map[string]string{"index.html": "whole"})
		return []string{b3.Sum([]byte("secret")).String(), whole.String(), root.String() + "/404.html"}
	})
	for host, paths := range map[string][]string{
		hostOfRoot(root): {"/secret.txt", "/alias", "/nothing"}, hostOfRoot(whole): {"/", "/x"},
	} {
		for _, path := range paths {
			if a := do(t, "GET", n.Addrs().Gateway+path, "Host", host); a.StatusCode != http.StatusUnavailableForLegalReasons {
				t.Errorf("%s%s: %s %s", host, path, a.Status, a.body)
			}
		}
	}
	a := do(t, "OPTIONS", n.Addrs().Gateway+"/", "Host", hostOfRoot(whole))
	if a.StatusCode != http.StatusUnavailableForLegalReasons {
		t.Errorf("OPTIONS: %s", a.Status)
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/", "Host", hostOfRoot(root)); a.body != "home" {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

// TestErrorPages: an error at the host of a website is a page without the gateway's icon, which is not there.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	n, names := startSites(t, func(c *Config, _ *server.AdminConfig) { c.Hosts.DNSLink = true })
	names.links["down.example"] = "down"
	root := n.objects.tree(t, map[string]string{"index.html": "home"})
	for _, c := range []struct {
		method, host, path string
		code               int
		icon               bool
	}{
		{"GET", hostOfRoot(root), "/nothing", 404, false}, {"GET", hostOfRoot(root), "/%2e%2e/x", 400, false},
		{"POST", hostOfRoot(root), "/", 405, false}, {"GET", "x.b3.localhost", "/", 400, false},
		{"GET", "down.example", "/", 504, false}, {"GET", "none.example", "/nothing", 404, true},
		{"GET", "localhost", "/nothing", 404, true}, {"GET", "127.0.0.1", "/b3/" + root.String() + "/nothing", 404, true},
	} {
		a := do(t, c.method, n.Addrs().Gateway+c.path, "Host", c.host, "Accept", "text/html")
		if a.StatusCode != c.code || !strings.Contains(a.body, "<!doctype html>") ||
			strings.Contains(a.body, "favicon.ico") != c.icon {
			t.Errorf("%s %s%s: %s %s", c.method, c.host, c.path, a.Status, a.body)
		}
	}
}

// TestOriginsTLS: over https a browser is sent to hosts that the certificate covers, with the scheme and the port, and
// both versions of HTTP serve them.
func TestOriginsTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.Pair(t, t.TempDir(), time.Now().Add(time.Hour), "node.test", "*.b3.node.test", "*.n3.node.test")
	n, _ := startSites(t, func(c *Config, _ *server.AdminConfig) {
		c.TLS.Cert, c.TLS.Key, c.Hosts.SubdomainHosts = cert, key, []string{"node.test", "bare.test"}
	})
	root := n.objects.tree(t, website)
	path := "/b3/" + root.String() + "/about"
	port := n.Addrs().Gateway[strings.LastIndexByte(n.Addrs().Gateway, ':'):]
	at := root.CID().String() + ".b3.node.test" + port
	for _, h2 := range []bool{false, true} {
		client := a.https(t, n, h2)
		get := func(host, path string) (code int, h http.Header) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.Addrs().Gateway+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			req.Header.Set("Sec-Fetch-Mode", "navigate")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode, resp.Header
		}
		if code, h := get("node.test"+port, path); code != http.StatusMovedPermanently ||
			h.Get("Location") != "//"+at+"/about" {
			t.Errorf("h2 %t: %d %v", h2, code, h)
		}
		if code, h := get(at, "/about"); code != http.StatusOK || h.Get("Origin-Agent-Cluster") != "?1" {
			t.Errorf("h2 %t: %d %v", h2, code, h)
		}
		for _, host := range []string{"bare.test", "localhost"} { // no certificate has their labels
			if code, _ := get(host, path[:len(path)-len("about")]); code != http.StatusOK {
				t.Errorf("h2 %t: %s: %d", h2, host, code)
			}
		}
	}
}

// TestOriginsPrefix: below a prefix there is no redirect to a host, and a website has no prefix.
func TestOriginsPrefix(t *testing.T) {
	t.Parallel()
	n, _ := startSites(t, func(c *Config, _ *server.AdminConfig) { c.Prefix = "/data" })
	root := n.objects.tree(t, website)
	path := "/b3/" + root.String() + "/"
	a := do(t, "GET", n.Addrs().Gateway+path, "Host", "localhost", "Sec-Fetch-Mode", "navigate")
	if a.StatusCode != http.StatusOK {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/docs", "Host", hostOfRoot(root)); a.Header.Get("Location") != "/docs/" {
		t.Errorf("%s %v", a.Status, a.Header)
	}
}

// TestAdminFromOrigins: a page at a host of a root cannot use the admin listener, whatever its browser sends.
func TestAdminFromOrigins(t *testing.T) {
	t.Parallel()
	n, _ := startSites(t)
	origin := "http://" + hostOfRoot(b3.Sum(nil))
	_, port, _ := strings.Cut(strings.TrimPrefix(n.Addrs().Admin, "http://"), ":")
	for _, site := range []string{"same-site", "cross-site", ""} {
		for _, c := range []struct{ method, path string }{
			{"GET", "/version"}, {"GET", "/api/v1/node"}, {"POST", "/admin/drain"}, {"POST", "/api/v1/add"},
		} {
			headers := []string{"Host", "localhost:" + port, "Origin", origin}
			if site != "" {
				headers = append(headers, "Sec-Fetch-Site", site)
			}
			a := do(t, c.method, n.Addrs().Admin+c.path, headers...)
			if a.StatusCode != http.StatusForbidden || a.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s of %q: %s", c.method, c.path, site, a.Status)
			}
		}
	}
	for _, method := range []string{"POST", "PUT"} { // the public one wants a capability
		a := do(t, method, n.Addrs().Gateway+"/o/"+b3.Sum(nil).String(), "Host", "localhost", "Origin", origin)
		if a.StatusCode/100 != 4 || a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s", method, a.Status)
		}
	}
}
