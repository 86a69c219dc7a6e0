package gateway

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"allium/gateway/content"
	"allium/internal/testkit"
)

// generated runs a generator of websites in a directory of testdata, and returns the files that it writes.
func generated(t *testing.T, dir string, command ...string) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "site")
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], out)...)
	cmd.Dir = filepath.Join("testdata", dir)
	cmd.Env = append(os.Environ(), "HUGO_CACHEDIR="+t.TempDir())
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", command, err, said)
	}
	return testkit.Files(t, out)
}

// shows waits until the tab shows a page with that title, and returns the text of its main part.
func (b *browser) shows(t *testing.T, title string) string {
	t.Helper()
	see(t, b, chromedp.Poll[bool](`document.title === "`+title+`"`, chromedp.WithPollingTimeout(patience)))
	return see(t, b, chromedp.Evaluate[string](`document.querySelector("main").textContent`))
}

// TestBrowserVite opens the site that Vite builds at the host of its root: modules, one of them fetched when it is
// needed, a worker, styles and an image with hashes in their names, and routes that are paths.
func TestBrowserVite(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	vite, err := filepath.Abs("../tools/vite/node_modules/vite/bin/vite.js")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		testkit.Missing(t, "needs node: a site that Vite builds is not tested")
	}
	if _, err := os.Stat(vite); err != nil {
		testkit.Missing(t, "Vite is not installed: a site that it builds is not tested; run `make bin/tools/vite`")
	}
	files := generated(t, "vite", "node", vite, "build", "--logLevel", "warn", "--emptyOutDir", "--outDir")
	n := start(t)
	root := n.objects.tree(t, files)
	_, port, _ := strings.Cut(n.Addrs().Gateway, "1:")
	site := "http://" + root.CID().String() + ".b3.localhost:" + port
	b := openBrowser(t)

	b.visit(t, chromedp.Navigate(site+"/"))
	b.shows(t, "Home")
	if got := see(t, b, chromedp.Evaluate[string](`getComputedStyle(document.body).color + " " + `+
		`document.querySelector("main img").naturalWidth`)); got != "rgb(1, 2, 3) 30" {
		t.Errorf("style and image: %s", got)
	}
	b.do(t, chromedp.Click(`a[href="/notes/7"]`))
	if got := b.shows(t, "Note 7"); got != "SEVENTH" {
		t.Errorf("the note is %q", got)
	}
	b.quiet(t, "a route")
	resp := b.visit(t, chromedp.Reload())
	if got := b.shows(t, "Note 7"); got != "SEVENTH" || resp.Status != http.StatusOK {
		t.Errorf("after a reload: %d, %q", resp.Status, got)
	}
	if at := see(t, b, chromedp.Location()); at != site+"/notes/7" {
		t.Errorf("the route is at %s", at)
	}
	spacing := see(t, b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector("main")).letterSpacing`))
	if spacing != "7px" {
		t.Errorf("the style of the route: %s", spacing)
	}
	b.do(t, chromedp.Click(`a[href="/"]`))
	b.shows(t, "Home")
	b.do(t, chromedp.Evaluate[chromedp.Void](`history.back()`))
	b.shows(t, "Note 7")
	b.quiet(t, "routes")

	hashed := regexp.MustCompile(`^assets/(index|note|worker|logo)-[\w-]{8}\.(js|css|svg)$`)
	host, count := strings.TrimPrefix(site, "http://"), 0
	for name := range files {
		if !hashed.MatchString(name) {
			continue
		}
		count++
		a := do(t, "GET", n.Addrs().Gateway+"/"+name, "Host", host)
		if a.StatusCode != http.StatusOK || a.Header.Get("Cache-Control") != "max-age=31536000, immutable" {
			t.Errorf("%s: %s %v", name, a.Status, a.Header)
		}
	}
	if count != 6 {
		t.Errorf("%d files have a hash in their names: %v", count, files)
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/assets/note-00000000.js", "Host", host); a.StatusCode != http.StatusNotFound {
		t.Errorf("a script that is not there: %s %s", a.Status, a.body)
	}
}

// TestBrowserHugo opens the site that Hugo builds at the host of a name: pages at their directories, styles and scripts
// with digests that the browser checks, a feed, a redirect, and the page for what is not there.
func TestBrowserHugo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	if _, err := exec.LookPath("hugo"); err != nil {
		testkit.Missing(t, "needs hugo: a site that it builds is not tested")
	}
	n, names := startSites(t)
	root := n.objects.tree(t, generated(t, "hugo", "hugo", "--quiet", "--noBuildLock", "--destination"))
	names.named["notes.alice"] = content.Named{Root: root, TTL: time.Minute}
	_, port, _ := strings.Cut(n.Addrs().Gateway, "1:")
	site := "http://notes-alice.n3.localhost:" + port
	b := openBrowser(t)

	for _, c := range []struct{ open, at, title, main string }{
		{"/", "/", "Notes", "Notes"}, {"/posts/first/", "/posts/first/", "The first", "It has bold text"},
		{"/posts/first", "/posts/first/", "The first", "It has bold text"},
		{"/old/first/", "/posts/first/", "The first", "It has bold text"},
	} {
		resp := b.visit(t, chromedp.Navigate(site+c.open))
		if got := b.shows(t, c.title); resp.Status != http.StatusOK || !strings.Contains(got, c.main) {
			t.Errorf("%s: %d, %q", c.open, resp.Status, got)
		}
		if at := see(t, b, chromedp.Location()); at != site+c.at {
			t.Errorf("%s leads to %s", c.open, at)
		}
	}
	b.visit(t, chromedp.Click(`main a`))
	b.shows(t, "Über")
	if got := see(t, b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector("h1")).color + " " + `+
		`document.querySelector("main img").naturalWidth + " " + document.body.dataset.script + " " + `+
		`decodeURI(location.pathname)`)); got != "rgb(1, 2, 3) 30 ran /posts/über/" {
		t.Errorf("style, image, script and path: %s", got)
	}
	b.visit(t, chromedp.Click(`nav a`))
	b.shows(t, "Notes")
	feed := see(t, b, chromedp.Evaluate[string](`fetch(document.querySelector("link[rel=alternate]").href)`+
		`.then((r) => r.text()).then((text) => [...new DOMParser().parseFromString(text, "application/xml")`+
		`.querySelectorAll("item > link")].map((l) => l.textContent).join(" "))`, await))
	if feed != "https://www.example.org/posts/%C3%BCber/ https://www.example.org/posts/first/" {
		t.Errorf("the feed has %s", feed)
	}
	b.quiet(t, "pages")
	resp := b.visit(t, chromedp.Navigate(site+"/posts/nowhere/"))
	if got := b.shows(t, "404 Page not found"); resp.Status != http.StatusNotFound || got != "Nothing is here" {
		t.Errorf("what is not there: %d, %q", resp.Status, got)
	}
	if got := see(t, b, chromedp.Evaluate[string](`document.body.dataset.script`)); got != "ran" {
		t.Errorf("the script of the page for what is not there: %q", got)
	}
	for _, said := range b.said() { // that the page itself was 404
		if !strings.Contains(said, "/posts/nowhere/") {
			t.Errorf("the console says %s", said)
		}
	}
}
