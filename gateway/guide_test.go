package gateway

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"allium/gateway/server"
)

// TestGuideDownload runs the page of docs/friend.md that downloads and proves a file, against a gateway and against one
// that lies.
func TestGuideDownload(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	guide, err := os.ReadFile("../docs/friend.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```html\n")
	page, _, ok := strings.Cut(rest, "```")
	const example = `"http://127.0.0.1:8080"`
	if !ok || strings.Count(page, example) != 1 {
		t.Fatalf("docs/friend.md has no page with the gateway %s: %s", example, page)
	}
	var gateway string
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/verify.mjs" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(verifyModule(t))
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(strings.Replace(page, example, `"`+gateway+`"`, 1)))
	}))
	defer site.Close()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.CORSOrigins = []string{site.URL} })
	data := patterned(200_000)
	root := n.objects.put(data).String()
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := do(t, "GET", n.Addrs().Gateway+r.URL.RequestURI())
		b := []byte(a.body)
		b[len(b)-1] ^= 1
		w.Header().Set("Content-Type", a.Header.Get("Content-Type"))
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = w.Write(b)
	}))
	defer liar.Close()

	// The tab is asked by scripts alone: a search for an element finds its name in the page's script too.
	b := openBrowser(t)
	get := func(from string) (said string, links int) {
		t.Helper()
		gateway = from
		b.do(t, chromedp.Navigate(site.URL))
		see(t, b, chromedp.Evaluate[bool](`document.querySelector("#address").value = "`+root+`",
	document.querySelector("button").click(), true`))
		const now = `document.querySelector("p").textContent`
		for len(said) < len("…")+1 { // the test's context bounds this
			said = see(t, b, chromedp.Evaluate[string](now))
		}
		return said, see(t, b, chromedp.Evaluate[int](`document.querySelectorAll("p a[download]").length`))
	}
	if said, links := get(n.Addrs().Gateway); links != 1 {
		t.Fatalf("the page says %q", said)
	}
	const size = `fetch(document.querySelector("p a").href).then((r) => r.arrayBuffer()).then((p) => p.byteLength)`
	if got := see(t, b, chromedp.Evaluate[int](size, await)); got != len(data) {
		t.Errorf("%d bytes of %d", got, len(data))
	}
	if said, links := get(liar.URL); links != 0 || !strings.HasPrefix(said, "Nothing to save") {
		t.Errorf("of a lie the page says %q, and offers %d files", said, links)
	}
}
