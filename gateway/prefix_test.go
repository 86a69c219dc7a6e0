package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"allium/gateway/content"
	"allium/gateway/openapi"
	"allium/gateway/server"
	"allium/gateway/verified"
	"allium/protocols/b3"
)

// TestPrefix follows every link and redirect of a gateway behind a proxy that serves it below /files. None leads out,
// and each leads somewhere: whether the proxy takes the prefix away and says so, or the gateway is told by its key.
func TestPrefix(t *testing.T) {
	t.Parallel()
	trusting := func(c *Config, _ *server.AdminConfig) { c.TrustedProxies = []string{"127.0.0.1"} }
	for name, c := range map[string]struct {
		config option
		strip  bool
		header string
	}{
		"told by the proxy": {trusting, true, "/files"},
		"with a slash":      {trusting, true, "/files/"},
		"told by both": {func(c *Config, _ *server.AdminConfig) {
			c.TrustedProxies, c.Prefix = []string{"127.0.0.1"}, "/other"
		}, true, "/files"},
		"by the key":                  {func(c *Config, _ *server.AdminConfig) { c.Prefix = "/files/" }, true, ""},
		"by the key, and in the path": {func(c *Config, _ *server.AdminConfig) { c.Prefix = "/files" }, false, ""},
		"by others, which do not count": {func(c *Config, _ *server.AdminConfig) { c.Prefix = "/files" }, true,
			"/evil"},
		"in words that do not count": {func(c *Config, _ *server.AdminConfig) {
			c.TrustedProxies, c.Prefix = []string{"127.0.0.1"}, "/files"
		}, true, "//evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names := &fakeNames{named: map[string]content.Named{}, asked: map[string]int{}}
			n := startWith(t, hooks{
				deps: func(d *Deps) { d.Names, d.Example = names, b3.Sum([]byte("read me\n")) },
				params: func(p *server.Params) {
					if !c.strip {
						p.Wrap = nil // the document has no paths below a prefix
					}
				},
			}, c.config)
			files := maps.Clone(site)
			maps.DeleteFunc(files, func(name, _ string) bool { return name == "up" || name == "abs" }) // lead out of it
			dir := n.objects.tree(t, files)
			names.named["blog.alice"] = content.Named{Root: dir, TTL: time.Minute}
			to, err := url.Parse(n.Addrs().Gateway)
			if err != nil {
				t.Fatal(err)
			}
			through := http.Handler(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				if c.header != "" {
					r.Out.Header.Set("X-Forwarded-Prefix", c.header)
				}
			}, Transport: transport})
			if c.strip {
				through = http.StripPrefix("/files", through)
			}
			proxy := httptest.NewServer(through)
			defer proxy.Close()
			f := follower{t: t, base: proxy.URL, seen: map[string]bool{}}
			for _, page := range []string{
				"/", "/upload", "/nothing", "/b3/" + dir.String(), "/b3/" + dir.String() + "/?view=gallery",
				"/b3/" + dir.String() + "/docs/?view=list", "/b3/" + dir.String() + "/readme.txt?view=preview",
				"/b3/" + b3.Sum([]byte("read me\n")).String() + "?view=preview", "/n/Blog.alice/docs",
				"/b3?key=" + dir.String() + "/docs", "/b3/" + strings.ToUpper(dir.Hex()), "/o/" + dir.Hex() + "/x",
			} {
				f.follow("/files" + page)
			}
			if len(f.seen) < 40 {
				t.Errorf("%d pages were found", len(f.seen))
			}
			f.locations(dir)
		})
	}
}

// follower follows the links of pages below base.
type follower struct {
	t    *testing.T
	base string
	seen map[string]bool
}

// ask sends a request of a browser and does not follow its redirects.
func (f *follower) ask(method, path string, body io.Reader, headers ...string) answer {
	return doBody(f.t, method, f.base+path, body, append([]string{"Accept", "text/html"}, headers...)...)
}

// follow loads a page and all that it leads to.
func (f *follower) follow(path string) {
	if f.seen[path] {
		return
	}
	f.seen[path] = true
	a := f.ask("GET", path, nil)
	if a.StatusCode >= 300 && a.StatusCode < 400 {
		f.follow(f.below(path, a.Header.Get("Location")))
		return
	}
	if a.StatusCode >= 400 && path != "/files/nothing" {
		f.t.Errorf("%s: %s", path, a.Status)
	}
	if title := "<title>Index of "; strings.Contains(a.body, title) &&
		!strings.Contains(a.body, title+strings.SplitN(path, "?", 2)[0]+"<") {
		f.t.Errorf("%s: the title is that of another path", path)
	}
	if a.Header.Get("Content-Security-Policy") == contentPolicy {
		return // no page of the gateway
	}
	for z := html.NewTokenizer(strings.NewReader(a.body)); z.Next() != html.ErrorToken; {
		t := z.Token()
		for _, attr := range t.Attr {
			switch attr.Key {
			case "href", "src", "data", "action", "formaction":
				to := f.below(path, attr.Val)
				if t.Data != "form" && !strings.HasPrefix(attr.Val, "#") {
					f.follow(to)
				}
			}
		}
	}
}

// below returns the path that a link in a page leads to, which must be of the gateway.
func (f *follower) below(page, link string) string {
	from, err := url.Parse(f.base + page)
	if err != nil {
		f.t.Fatal(err)
	}
	to, err := from.Parse(link)
	if err != nil || to.Host != from.Host || !strings.HasPrefix(to.Path, "/files/") && link != "../" {
		f.t.Fatalf("%s leads to %q (%v)", page, link, err)
	}
	return to.RequestURI()
}

// locations asks for what has other headers with a path.
func (f *follower) locations(dir b3.Root) {
	f.t.Helper()
	const put = "Bearer may-put,pin"
	text := b3.Sum([]byte("read me\n")).String()
	for _, c := range []struct {
		method, path, body string
		headers            []string
		header, want       string
	}{
		{"GET", "/o/" + text + "?format=bao", "", nil, "Content-Location", "/files/o/" + text + "?format=bao"},
		{"GET", "/o/" + text, "", nil, "Link", `<?format=bao>; rel="alternate"; type="application/vnd.allium.bao"`},
		{"GET", "/b3/" + dir.String() + "/latest", "", nil, "Location", "/files/b3/" + dir.String() + "/docs/deep"},
		{"POST", "/o", "posted", nil, "Location", "/files/o/" + b3.Sum([]byte("posted")).String()},
		{"POST", "/b3", "a tar", []string{"Content-Type", "application/x-tar"}, "Location", "/files/b3/b3:*"},
		{"POST", "/u", "", []string{"Upload-Length", "5"}, "Location", "/files/u/*"},
		{"POST", "/u", "", []string{"Upload-Length", "5", "Tus-Resumable", "1.0.0"}, "Location", "/files/u/*"},
	} {
		a := f.ask(c.method, "/files"+c.path, strings.NewReader(c.body), append(c.headers, "Authorization", put)...)
		got := a.Header.Get(c.header)
		if start, cut := strings.CutSuffix(c.want, "*"); got != c.want && (!cut || !strings.HasPrefix(got, start)) {
			f.t.Errorf("%s %s: %s: %q, want %q (%s %s)", c.method, c.path, c.header, got, c.want, a.Status, a.body)
		}
		if strings.HasPrefix(got, "/files/u/") {
			if head := f.ask("HEAD", got, nil, "Authorization", put); head.StatusCode != http.StatusOK {
				f.t.Errorf("HEAD %s: %s", got, head.Status)
			}
		}
	}
	var doc openapi.Document
	a := f.ask("GET", "/files/openapi.json", nil)
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil || len(doc.Servers) != 1 ||
		doc.Servers[0].URL != "/files" {
		f.t.Errorf("the servers are %+v, %v", doc.Servers, err)
	}
	again := f.ask("GET", "/files/openapi.json", nil, "If-None-Match", a.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified {
		f.t.Errorf("the same document again: %s", again.Status)
	}
}

// TestPrefixOfOneProxy: an answer for a prefix that a request brought is not one for others, also in caches. What is no
// prefix, or comes from elsewhere, changes nothing.
func TestPrefixOfOneProxy(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.TrustedProxies = []string{"127.0.0.1"} })
	dir := n.objects.tree(t, site)
	ask := func(headers ...string) answer {
		return do(t, "GET", n.Addrs().Gateway+"/b3/"+dir.String()+"/docs/?view=list", headers...)
	}
	plain, below := ask(), ask("X-Forwarded-Prefix", "/a/b.c~d_e-f")
	if vary := strings.Join(below.Header["Vary"], ", "); !strings.Contains(vary, "X-Forwarded-Prefix") ||
		below.Header.Get("ETag") == plain.Header.Get("ETag") || !strings.Contains(below.body, `href="/a/b.c~d_e-f/o/`) {
		t.Errorf("Vary is %q, ETag %s as %s", vary, below.Header.Get("ETag"), plain.Header.Get("ETag"))
	}
	for _, bad := range []string{
		"//evil.example", "/a//b", "evil", "https://evil.example", `/\evil`, "/a/../b", "/..", "/.",
		"/a/./b", "/%2e%2e", "/a b",
		"/a?b", "/a#b", "/a\tb", "/é", "/a,/b", "/" + strings.Repeat("a", 255), "/a\"><script>",
	} {
		if a := ask("X-Forwarded-Prefix", bad); a.body != plain.body ||
			strings.Contains(a.Header.Get("Vary"), "Prefix") {
			t.Errorf("%q changes the page", bad)
		}
		cfg := DefaultConfig()
		if cfg.Prefix = bad; cfg.Validate() == nil {
			t.Errorf("%q is taken for gateway.prefix", bad)
		}
	}
	if a := ask("X-Forwarded-Prefix", "/a", "X-Forwarded-Prefix", "/b"); a.body != plain.body {
		t.Error("two prefixes change the page")
	}
	if a := ask("X-Forwarded-Prefix", "/"); a.body != plain.body {
		t.Error("no prefix changes the page")
	}
	admin := do(t, "GET", n.Addrs().Admin+"/openapi.json", "X-Forwarded-Prefix", "/a")
	if strings.Contains(admin.body, `"url": "/a"`) {
		t.Error("the admin listener takes a prefix")
	}
}

// TestPrefixInThePath: below the prefix there is what there is without it, and nothing else.
func TestPrefixInThePath(t *testing.T) {
	t.Parallel()
	g := newTestGateway(t, &fakeObjects{}, func(c *Config, _ *server.AdminConfig) { c.Prefix = "/files" })
	s := g.Handler(server.Public)
	for path, want := range map[string]int{
		"/files": 200, "/files/": 200, "/files/healthz": 200, "/healthz": 200, "/filesystem/healthz": 404,
		"/files/files/healthz": 404, "/files/files": 404, "/fileshealthz": 404, "/%66iles/healthz": 404,
		"/files/b3/b3%3A": 400, "http://x/files/healthz": 200,
	} {
		if rec := serve(s, "GET", path, "192.0.2.1:1", nil); rec.Code != want {
			t.Errorf("%s: %d, want %d", path, rec.Code, want)
		}
	}
}

// TestPrefixAndClient: a client of the gateway itself uploads in pieces whatever the prefix of others is.
func TestPrefixAndClient(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Prefix = "/files" })
	p := patterned(3 * b3.GroupSize)
	s, err := through(t, n.Addrs().Gateway, "may-put,pin").Upload(t.Context(), bytes.NewReader(p), int64(len(p)),
		verified.PutOptions{})
	if err != nil || s.Root != b3.Sum(p) {
		t.Errorf("%+v, %v", s, err)
	}
}
