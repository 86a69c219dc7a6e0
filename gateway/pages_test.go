package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// shownNames are the names in a listing, in its order.
func shownNames(page string) (names []string) {
	for _, m := range regexp.MustCompile(`<td class="name">.*?<a [^>]*>(.*?)</a>`).FindAllStringSubmatch(page, -1) {
		names = append(names, m[1])
	}
	return names
}

// buttonTo is the beginning of a form that leads to a page with a query. Its members are in the order of their names.
func buttonTo(query, label string) string {
	form := `<form class="choice" method="get" rel="nofollow">`
	for member := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(member, "=")
		form += fmt.Sprintf(`<input type="hidden" name="%s" value="%s">`, name, value)
	}
	if label == "" {
		return form + "<button"
	}
	return form + "<button>" + label
}

func TestListingOrder(t *testing.T) {
	t.Parallel()
	n := start(t)
	files := map[string]string{
		"img10.png": "1", "img9.png": "333", "IMG2.png": "22", "a.txt": "4444", "zdir/x": "x",
		"Dir10/x": "x", "dir9/x": "x",
		"b.zip": "55555", "link": "-> a.txt", "index.html": "<p>index</p>",
	}
	dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, files).String() + "/"
	if a := do(t, "GET", dir); a.body != "<p>index</p>" {
		t.Errorf("without a query: %.100s", a.body)
	}
	for query, want := range map[string]string{
		"view=list": "dir9/ Dir10/ zdir/ a.txt b.zip IMG2.png img9.png img10.png " +
			"index.html link",
		"order=desc": "zdir/ Dir10/ dir9/ link index.html img10.png img9.png IMG2.png " +
			"b.zip a.txt",
		"sort=size": "dir9/ Dir10/ zdir/ link img10.png IMG2.png img9.png a.txt b.zip " +
			"index.html",
		"sort=size&order=desc": "zdir/ Dir10/ dir9/ index.html b.zip a.txt img9.png IMG2.png " +
			"img10.png link",
		"sort=kind": "dir9/ Dir10/ zdir/ b.zip IMG2.png img9.png img10.png link a.txt " +
			"index.html",
		"filter=img":                        "IMG2.png img9.png img10.png",
		"filter=+DIR+&sort=size&order=desc": "zdir/ Dir10/ dir9/",
		"filter=none":                       "",
	} {
		if a := do(t, "GET", dir+"?"+query); strings.Join(shownNames(a.body), " ") != want {
			t.Errorf("%s: %s %q", query, a.Status, shownNames(a.body))
		}
	}
	page := do(t, "GET", dir+"?filter=img&sort=size&order=desc")
	for _, want := range []string{
		`aria-sort="descending"`, `name="sort" value="size"`, `name="order" value="desc"`,
		`value="img"`, "3 of 10 entries",
		buttonTo("filter=img&sort=size&view=list", ""),               // the other direction
		buttonTo("filter=img&order=desc&sort=size&view=gallery", ""), // the other view
		buttonTo("order=desc&sort=size&view=list", ""),               // without the filter
		buttonTo("format=json", "as JSON"),
	} {
		if !strings.Contains(page.body, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, query := range []string{
		"sort=date", "order=up", "view=tree", "view=preview",
		"filter=" + strings.Repeat("x", 10<<10), "sort=name&sort=size",
		"format=json&sort=size", "format=json&filter=a", "format=json&view=list",
	} {
		do(t, "GET", dir+"?"+query).problem(t, status.BadRequest)
	}
	do(t, "GET", dir+"?filter=a", "Accept", "application/json") // a page: the parameter asks for it
	if tag := page.Header.Get("ETag"); tag == do(t, "GET", dir+"?filter=img&sort=size").Header.Get("ETag") ||
		do(t, "GET", dir+"?filter=img&sort=size&order=desc", "If-None-Match",
			tag).StatusCode != http.StatusNotModified {
		t.Errorf("ETag %s", tag)
	}
}

// TestLongListing: what is too long to be sorted is in the order of its bytes, and can be filtered.
func TestLongListing(t *testing.T) {
	if testing.Short() {
		t.Skip("a large directory; TestMaze has the same goroutines")
	}
	t.Parallel()
	n := start(t)
	for name, c := range map[string]struct{ many, length int }{"entries": {10_001, 1}, "bytes": {16_000, 240}} {
		files := map[string]string{}
		for i := range c.many {
			files[fmt.Sprintf("%d-%s.txt", i, strings.Repeat("x", c.length))] = "same"
		}
		dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, files).String() + "/"
		a := do(t, "GET", dir+"?sort=size")
		names := shownNames(a.body)
		if len(names) != c.many || !slices.IsSorted(names) || !strings.Contains(a.body, "too long to be sorted") ||
			strings.Contains(a.body, `aria-sort="`) {
			t.Errorf("%s: %d names, sorted %t", name, len(names), slices.IsSorted(names))
		}
		if got := shownNames(do(t, "GET", dir+"?filter=9999-").body); len(got) != 1 {
			t.Errorf("%s: filtered %q", name, got)
		}
	}
	sorted := map[string]string{}
	for i := range 10_000 {
		sorted[fmt.Sprintf("%d.txt", i)] = "same"
	}
	a := do(t, "GET", n.Addrs().Gateway+"/b3/"+n.objects.tree(t, sorted).String()+"/")
	if names := shownNames(a.body); len(names) != 10_000 || names[9_999] != "9999.txt" || names[10] != "10.txt" {
		t.Errorf("10,000 entries: %d names", len(names))
	}
}

// TestPageBytes: one client cannot take all the memory for sorting large directories. What it asks beyond its share
// is listed in the order of its bytes, and another client's listing is sorted.
func TestPageBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("a large directory; TestMaze has the same goroutines")
	}
	t.Parallel()
	n := start(t)
	files := map[string]string{}
	for i := range 9_000 {
		files[fmt.Sprintf("%d-%s", i, strings.Repeat("y", 200))] = "same"
	}
	dir := "/b3/" + n.objects.tree(t, files).String() + "/?sort=name"
	var readers []*net.TCPConn
	for len(readers) < 5 {
		readers = append(readers, slowReaderOf(t, n, 2, dir+" HTTP/1.1"))
		testkit.Eventually(t, "one more listing", func() bool { return n.current("gateway.listings") == len(readers) })
	}
	taken, share := n.current("gateway.page_bytes"), 24<<20/3
	if taken > share || taken < share/2 {
		t.Errorf("%d bytes are taken of a share of %d", taken, share)
	}
	for host, sorted := range map[byte]bool{2: false, 3: true} {
		resp, err := clientFrom(t, n, host).Get(n.Addrs().Gateway + dir)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		names := shownNames(string(body))
		if err != nil || len(names) != 9_000 || strings.HasPrefix(names[2], "2-") != sorted {
			t.Errorf("client %d: %d names, %v", host, len(names), err)
		}
		if kept := resp.Header.Get("Cache-Control") != "no-store" && resp.Header.Get("ETag") != ""; kept != sorted {
			t.Errorf("client %d: %v", host, resp.Header)
		}
	}
	small := n.objects.tree(t, map[string]string{"10": "a", "9": "a"})
	if a := do(t, "GET", n.Addrs().Gateway+"/b3/"+small.String()+"/?sort=name"); shownNames(a.body)[0] != "9" {
		t.Errorf("a small directory needs no share: %q", shownNames(a.body))
	}
	for _, c := range readers {
		c.Close()
	}
	testkit.Eventually(t, "no listings", func() bool { return n.current("gateway.page_bytes") == 0 })
}

// TestUnstoredDirectory: a node whose store has no space fetches each manifest of a listing twice at most, and not once
// for each part.
func TestUnstoredDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("a large directory; TestMaze has the same goroutines")
	}
	t.Parallel()
	n := start(t)
	files := map[string]string{}
	for i := range 9_000 {
		files[fmt.Sprintf("%d-%s", i, strings.Repeat("y", 200))] = "same"
	}
	dir := "/b3/" + n.objects.tree(t, files).String() + "/"
	nodes := 0
	n.objects.mu.Lock()
	for _, o := range n.objects.m {
		if o.remote = len(o.data) > 1000; o.remote {
			nodes++
		}
	}
	n.objects.mu.Unlock()
	for _, q := range []string{"?format=json", "?sort=name", "?sort=size"} {
		n.objects.opened()
		if a := do(t, "GET", n.Addrs().Gateway+dir+q); a.err != nil || strings.Count(a.body, "8999-") == 0 {
			t.Fatal(q, a.Status, a.err)
		}
		fetches := 0
		for _, o := range n.objects.opened() {
			if !o.LocalOnly {
				fetches++
			}
		}
		if nodes < 5 || fetches > 2*nodes {
			t.Errorf("%s: %d fetches of %d manifests", q, fetches, nodes)
		}
	}
	testkit.Eventually(t, "nothing held", func() bool { return n.current("gateway.page_bytes") == 0 })
}

// TestLyingIndex: an index that calls its leaves smaller than they are is refused, so it cannot make the gateway hold
// more than it counts.
func TestLyingIndex(t *testing.T) {
	t.Parallel()
	n := start(t)
	files := map[string]string{}
	for i := range 9_000 {
		files[fmt.Sprintf("%05d-%s", i, strings.Repeat("y", 60))] = "same"
	}
	n.objects.tree(t, files)
	var leaf b3.Root
	for r, o := range n.objects.m {
		if node, err := manifest.Decode(o.data); err == nil && !node.Index && node.Entries[0].Name[:5] == "00000" {
			leaf = r
		}
	}
	index := append([]byte(manifest.Magic), "\xa2\x00\x02\x01\x81\xa3\x00\x78\x42"...)
	index = append(index, fmt.Sprintf("%05d-%s", 0, strings.Repeat("y", 60))...)
	index = append(append(append(index, "\x02\x58\x20"...), leaf[:]...), "\x03\x18\x20"...)
	root := n.objects.put(index)
	do(t, "GET", n.Addrs().Gateway+"/b3/"+root.String()+"/?sort=size").problem(t, status.BadRequest)
}

func TestPreviews(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{deps: withTicket})
	long := strings.Repeat("0123456789abcdef\n", 40_000)
	files := album(t)
	files["long.txt"], files["lines.txt"] = long, strings.Repeat("\n", 20_000)
	files["one-line.txt"], files["one-line.md"] = strings.Repeat("é", 1<<19), strings.Repeat("a", 1<<20)
	files["latin.txt"], files["nul.txt"] = "caf\xe9", "a\x00b"
	files["trojan.go"] = "// \u202e hidden\x1b[0m\n"
	files["deep.md"] = strings.Repeat("> ", 1000) + "x"
	files["empty.txt"], files["page.htm"] = "", "<script>alert(1)</script>"
	files["bad.md"] = `<script>alert(1)</script><iframe src="//evil.example/"></iframe>` + "\n\n" +
		"![far](https://evil.example/a.png) ![near](a.png) [js](javascript:alert(1)) <img src=//evil.example/b " +
		"onerror=x>\n" +
		"<style>*{}</style><form action=/x><input></form>\n\n[page](notes.txt) [far](https://example.org/)"
	dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, files).String() + "/"
	for name, want := range map[string][]string{
		"main.go": {
			`<pre class="lines">`, "</a><i class=\"k\">package</i> main\n</span>", `href="main.go" download`,
		},
		"beach-1.png":      {`<img src="beach-1.png" alt="beach-1.png">`},
		"logo.svg":         {`<img src="logo.svg"`},
		"not-an-image.png": {"does not begin like one", "There is no preview"},
		"tone.wav":         {"<audio"},
		"clip.webm":        {"<video"},
		"paper.pdf":        {`<object class="document" type="application/pdf" data="paper.pdf"`},
		"archive.zip":      {"There is no preview", "archive, "},
		"Makefile":         {"</a>all:\n</span>"}, // by its bytes
		"page.htm":         {"</a>&lt;<i class=\"k\">script</i>&gt;alert(1)&lt;/<i class=\"k\">script</i>&gt;\n</span>"},
		"long.txt":         {"This is the beginning, 83 KiB of 664 KiB."},
		"one-line.txt":     {"This is the beginning, 256 KiB of 1 MiB."},
		"lines.txt":        {"This is the beginning"},
		"latin.txt":        {"no text in UTF-8", "There is no preview"},
		"nul.txt":          {"no text in UTF-8"},
		"empty.txt":        {`<pre class="lines"><code></code></pre>`},
		"trojan.go":        {`\u{202E} hidden\u{001B}[0m`},
		"Readme.md": {
			`<h1 id="md-a-week-by-the-sea">`, `<a href="notes.txt?view=preview"`,
			`<img src="beach-2.png"`, "<td>sun</td>",
		},
		"one-line.md": {"shown as it is written: it is longer than 128 KiB.", `<pre class="lines">`},
		"deep.md":     {"shown as it is written: it is too complex."},
		"bad.md": {`alt="far"`, `<img src="a.png" alt="near"`, `href="notes.txt?view=preview"`,
			`href="https://example.org/"`},
	} {
		a := do(t, "GET", dir+name+"?view=preview")
		for _, w := range append(want, "Every byte is verified", aTicket, "allium get b3:") {
			if !strings.Contains(a.body, w) {
				t.Errorf("%s: %s, no %q", name, a.Status, w)
			}
		}
		policy := a.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, exchange.PagePolicy) || strings.Contains(a.body, "<script") ||
			strings.Contains(a.body, "evil.example") || strings.Contains(a.body, "javascript:") ||
			strings.Contains(a.body, "<iframe") || len(a.body) > 1<<20 {
			t.Errorf("%s: policy %s, %d bytes", name, policy, len(a.body))
		}
		if h := do(t, "HEAD", dir+name+"?view=preview"); h.StatusCode != http.StatusOK || h.body != "" {
			t.Errorf("HEAD %s: %s", name, h.Status)
		}
		c := do(t, "GET", dir+name+"?view=preview", "If-None-Match", a.Header.Get("ETag"))
		if c.StatusCode != http.StatusNotModified {
			t.Errorf("%s with its tag: %s", name, c.Status)
		}
	}
	for _, query := range []string{"view=list", "view=gallery", "view=x"} {
		do(t, "GET", dir+"main.go?"+query).problem(t, status.BadRequest)
	}
	bare := n.Addrs().Gateway + "/b3/" + b3.Sum([]byte(files["notes.txt"])).String()
	if a := do(t, "GET", bare+"?view=preview"); !strings.Contains(a.body, "</a>by the sea") ||
		!strings.Contains(a.body, `<a class="button" href="/b3/b3:`) {
		t.Errorf("a bare address: %s %s", a.Status, a.body)
	}
	a := do(t, "GET", dir+"nothing.txt?view=preview", "Accept", "text/html")
	if a.StatusCode != http.StatusNotFound || !strings.Contains(a.body, "<h1>404") {
		t.Errorf("an error is a page: %s", a.Status)
	}
}

// TestOddNames: what a name has in it is seen, and harms no page.
func TestOddNames(t *testing.T) {
	t.Parallel()
	n := start(t)
	names := []string{"a\nb.txt", "x\u202egnp.txt", `q"u'o<b>.txt`, strings.Repeat("ü", 127), "#?&%.md"}
	files := map[string]string{}
	for _, name := range names {
		files[name] = "text of it"
	}
	root := n.objects.tree(t, files)
	dir := n.Addrs().Gateway + "/b3/" + root.String() + "/"
	for _, view := range []string{"list", "gallery"} {
		a := do(t, "GET", dir+"?view="+view)
		for _, bad := range []string{"\u202e", "a\nb", "<b>"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s has %q", view, bad)
			}
		}
	}
	for _, name := range names {
		a := do(t, "GET", dir+url.PathEscape(name)+"?view=preview")
		if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "text of it") ||
			strings.Contains(a.body, "\u202e") {
			t.Errorf("%q: %s", name, a.Status)
		}
	}
	if a := do(t, "GET", dir+url.PathEscape(names[2])+"?view=preview"); !strings.Contains(a.body,
		`allium get &#39;`+root.String()+`/q&#34;u&#39;\&#39;&#39;o&lt;b&gt;.txt&#39;`) {
		t.Errorf("the command is not quoted: %s", a.body)
	}
	if a := do(t, "GET", dir+url.PathEscape(names[0])+"?view=preview"); !strings.Contains(a.body,
		"allium get "+b3.Sum([]byte("text of it")).String()) {
		t.Error("a name with a newline is in the command")
	}
	do(t, "GET", dir+strings.Repeat("n", 10<<10)+"?view=preview").problem(t, status.BadRequest)
}

// TestPageWeight: a page without its entries stays below 30 KiB, compressed, and loads nothing from elsewhere.
func TestPageWeight(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{deps: withTicket})
	for _, path := range []string{"/", "/b3/" + n.objects.tree(t, nil).String() + "/"} {
		a := do(t, "GET", n.Addrs().Gateway+path)
		if size := len(gzipped(t, []byte(a.body))); size > 30<<10 {
			t.Errorf("%s weighs %d bytes", path, size)
		}
		for _, m := range regexp.MustCompile(`(?:src|href|data|action)="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
			if strings.Contains(m[1], "//") {
				t.Errorf("%s leads to %s", path, m[1])
			}
		}
	}
}

// TestPagesGolden compares whole pages with testdata/pages, without their style. `-update` writes them.
func TestPagesGolden(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{deps: func(d *Deps) { withTicket(d); d.Example = b3.Sum([]byte("example")) }})
	tree := "/b3/" + n.objects.tree(t, map[string]string{
		"a dir/x": "x", "b.png": pixel, "c.md": "# Title\n\n[x](a%20dir/)\n", "d.go": "package d\n", "e": "-> d.go",
		"f.sh": "#\n", "g+h & 'i':.txt": "odd\n", "j + k/x": "x",
	}).String() + "/"
	for name, path := range map[string]string{
		"landing": "/", "list": tree, "gallery": tree + "?view=gallery&sort=kind", "below": tree + "a%20dir/",
		"odd":      tree + "j%20+%20k/",
		"markdown": tree + "c.md?view=preview", "text": tree + "d.go?view=preview",
		"image": tree + "b.png?view=preview",
	} {
		a := do(t, "GET", n.Addrs().Gateway+path)
		same := regexp.MustCompile(`(?s)<style>.*?</style>|<symbol.*?</symbol>\n|<svg class="qr".*?</svg>`)
		got := same.ReplaceAllString(a.body, "")
		file := filepath.Join("testdata", "pages", name+".html")
		if *updateProblems {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s is not %s (%v); `go test ./gateway -run Golden -update` writes it:\n%s", path, file, err, got)
		}
	}
}

// TestNamedPages: a name shows the pages of its address.
func TestNamedPages(t *testing.T) {
	t.Parallel()
	names := &fakeNames{named: map[string]content.Named{}, asked: map[string]int{}}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Names = names }})
	root := n.objects.tree(t, album(t))
	names.named["blog.alice"] = content.Named{Root: root, TTL: time.Minute}
	for _, rest := range []string{"/?view=list", "/?sort=size&filter=beach", "/?view=gallery", "/Readme.md?view=preview"} {
		byName := do(t, "GET", n.Addrs().Gateway+"/n/blog.alice"+rest)
		byAddress := do(t, "GET", n.Addrs().Gateway+"/b3/"+root.String()+rest)
		_, want, _ := strings.Cut(byAddress.body, "<main>")
		if _, got, ok := strings.Cut(byName.body, "<main>"); !ok || got != want || !strings.Contains(byName.body,
			"<code>allium get blog.alice") {
			t.Errorf("%s: %s", rest, byName.Status)
		}
	}
}
