package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/weblink"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

// asPerson asks for a page as the browser of a person does.
func asPerson(t *testing.T, url string, headers ...string) answer {
	t.Helper()
	return do(t, "GET", url, append([]string{"Accept", "text/html,*/*;q=0.8", "Accept-Language", "en"}, headers...)...)
}

// readmeOf returns the text below a listing, "" for none.
func readmeOf(page string) string {
	_, rest, _ := strings.Cut(page, `<section class="readme"`)
	text, _, _ := strings.Cut(rest, "</section>")
	return text
}

func TestReadme(t *testing.T) {
	t.Parallel()
	n := start(t)
	hostile := "# Hi\n<script>alert(1)</script><iframe src=\"//evil.example\"></iframe><base href=//evil.example>\n\n" +
		"![a](https://evil.example/a.png) [b](javascript:alert(1)) [c](doc/x.txt) <h2 id=readme>z</h2>\n" +
		`</article></section></main><footer>` + "\n"
	wide := "|" + strings.Repeat("a|", 8000) + "\n|" + strings.Repeat("-|", 8000) + "\n" + strings.Repeat("a\n", 2000)
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"Markdown": {
			map[string]string{"README.md": "# Title\n", "readme.txt": "no"},
			[]string{`<h2 id="readme"><a href="README.md?view=preview">README.md</a>`, "Title</h1>"},
		},
		"text": {
			map[string]string{"Readme.TXT": "a <b>\r\nc\u202e", "x": ""},
			[]string{"<pre class=\"plain\">a &lt;b&gt;\nc\\u{202E}</pre>"},
		},
		"no ending": {map[string]string{"README": "plain"}, []string{`<pre class="plain">plain</pre>`}},
		"hostile":   {map[string]string{"README.md": hostile}, []string{"Hi</h1>", `href="doc/x.txt?view=preview"`}},
		"complex":   {map[string]string{"README.md": wide}, []string{`<pre class="plain">|a|a`}},
		"long":      {map[string]string{"README.md": strings.Repeat("a ", 40<<10)}, []string{"It is longer than 64 KiB"}},
		"no text":   {map[string]string{"README.md": "a\x00b"}, []string{"It is no text in UTF-8."}},
		"empty":     {map[string]string{"README.md": ""}, []string{`<h2 id="readme">`}},
		"none":      {map[string]string{"README.md/x": "", "readme.exe": "x", "README.txt": "-> x", "a-readme.md": "x"}, nil},
	} {
		dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, c.files).String() + "/"
		a := asPerson(t, dir)
		got := readmeOf(a.body)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s, no %q in %.1000s", name, a.Status, want, got)
			}
		}
		if c.want == nil && got != "" {
			t.Errorf("%s: %s", name, got)
		}
		for _, bad := range []string{"<script", "<iframe", "evil.example", "javascript:", "<base"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s: the page has %s", name, bad)
			}
		}
		if strings.Count(a.body, "<footer>") != 1 || strings.Count(a.body, `id="readme"`) > 1 ||
			!strings.HasSuffix(a.body, "</html>\n") {
			t.Errorf("%s: the page is broken", name)
		}
		if a.Header.Get("Content-Security-Policy") != exchange.PagePolicy || a.Header.Get("ETag") == "" ||
			a.Header.Get("Vary") == "" {
			t.Errorf("%s: %v", name, a.Header)
		}
		// A program gets the list alone, and so does who looks for something.
		b := do(t, "GET", dir, "Accept", "text/html")
		if readmeOf(b.body) != "" || b.Header.Get("ETag") == a.Header.Get("ETag") {
			t.Errorf("%s: a program gets %s", name, readmeOf(b.body))
		}
		if b := asPerson(t, dir+"?filter=a"); readmeOf(b.body) != "" {
			t.Errorf("%s: with a filter: %s", name, readmeOf(b.body))
		}
		if b := asPerson(t, dir, "If-None-Match", a.Header.Get("ETag")); b.StatusCode != http.StatusNotModified {
			t.Errorf("%s: with its tag: %s", name, b.Status)
		}
		if b := asPerson(t, dir+"?view=gallery"); readmeOf(b.body) != got {
			t.Errorf("%s: the gallery has %s", name, readmeOf(b.body))
		}
	}
	testkit.Eventually(t, "nothing held", func() bool { return n.current("gateway.page_bytes") == 0 })
}

// TestReadmeOfOthers: a readme that only peers have is fetched behind the list, and caches keep no page without it.
func TestReadmeOfOthers(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, map[string]string{"README.md": "# Far", "a": "1"})
	far := b3.Sum([]byte("# Far"))
	dir := n.Addrs().Gateway + "/b3/" + root.String() + "/"
	n.objects.mu.Lock()
	n.objects.m[far].remote = true
	n.objects.mu.Unlock()
	a := asPerson(t, dir)
	if !strings.Contains(readmeOf(a.body), "Far</h1>") || a.Header.Get("Cache-Control") != "no-store" ||
		a.Header.Get("ETag") != "" {
		t.Errorf("%s %v %s", a.Status, a.Header, readmeOf(a.body))
	}
	n.objects.mu.Lock()
	delete(n.objects.m, far)
	n.objects.mu.Unlock()
	a = asPerson(t, dir)
	if !strings.Contains(readmeOf(a.body), "did not arrive in time") || !strings.HasSuffix(a.body, "</html>\n") ||
		strings.Join(shownNames(a.body), " ") != "a README.md" {
		t.Errorf("%s %s", a.Status, readmeOf(a.body))
	}
	if a = asPerson(t, dir, "Cache-Control", "only-if-cached"); a.StatusCode != http.StatusOK {
		t.Errorf("only-if-cached: %s", a.Status)
	}
}

// TestReadmeOfLinks: a link that shows nothing of files shows no readme.
func TestReadmeOfLinks(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, map[string]string{"README.md": "# Hidden?"})
	for uses, shows := range map[int]bool{0: true, 3: false} {
		l := n.link(t, weblink.Options{Root: root, Name: "album", Downloads: uses})
		a := asPerson(t, l.own)
		if got := strings.Contains(a.body, "Hidden?"); got != shows {
			t.Errorf("%d downloads: the readme is shown: %t; %s %v %s", uses, got, a.Status, a.Header, a.body)
		}
	}
}

func TestTotals(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{nil, "0 entries, 0 B in files here."},
		{map[string]string{"a": "12"}, "1 entry, 2 B in files here."},
		{map[string]string{"a": "12", "d/x": "long", "l": "-> a"},
			"3 entries, 2 B in files here; what is inside the directory is not counted."},
	} {
		a := do(t, "GET", n.Addrs().Gateway+"/b3/"+n.objects.tree(t, c.files).String()+"/?filter=a")
		if !strings.Contains(a.body, `<p class="facts totals">`+c.want+"</p>") {
			t.Errorf("no %q in %s", c.want, a.body[max(0, strings.Index(a.body, "<main>")):])
		}
	}
}

// TestCalled: a directory that its address names has the title that the query, or the ticket on the way, calls it.
func TestCalled(t *testing.T) {
	t.Parallel()
	n := start(t)
	root := n.objects.tree(t, map[string]string{"a": "1", "d/x": "2"})
	dir := "/b3/" + root.String() + "/"
	for path, want := range map[string]string{
		dir: root.String()[:11] + "…", dir + "?name=My+photos": "My photos", dir + "d/?name=My+photos": "d",
		dir + "?name=%3Cb%3E&view=gallery": "&lt;b&gt;", dir + "?name=a%E2%80%AEb": `a\u{202E}b`,
	} {
		a := do(t, "GET", n.Addrs().Gateway+path)
		if !strings.Contains(a.body, "<title>"+want+" · allium</title>") || !strings.Contains(a.body, ">"+want+"</h1>") {
			t.Errorf("%s: no %q", path, want)
		}
		plain, _, _ := strings.Cut(path, "?")
		if !strings.Contains(a.body, "\n<!-- <title>Index of "+plain+"</title> -->\n") {
			t.Errorf("%s: no title for programs", path)
		}
	}
	a := do(t, "GET", n.Addrs().Gateway+dir+"?name=My+photos")
	for _, want := range []string{
		buttonTo("format=zip&name=My photos", "Download .zip"), buttonTo("name=My photos&view=gallery", "Gallery"),
		`<input type="hidden" name="name" value="My photos">`, "<code>" + root.String() + "</code>",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, bad := range []string{"a/b", "..", "%00", strings.Repeat("n", 300), "%ff"} {
		do(t, "GET", n.Addrs().Gateway+dir+"?name="+bad).problem(t, status.BadRequest)
	}
	sharer, err := peer.Decode("12D3KooWE4239U7UocwvYzy1zc4TNYj54dUB2XWKEPgZJCCWAeKJ")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"My photos": dir + "?name=My+photos", "": dir} {
		key, err := ticket.Ticket{Root: root, Peer: sharer, Directory: true, Name: name}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/b3?key=" + url.QueryEscape(key), "/b3/" + key} {
			a := do(t, "GET", n.Addrs().Gateway+path)
			if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != want {
				t.Errorf("%s: %s to %s", path, a.Status, a.Header.Get("Location"))
			}
		}
	}
}

// neighboursOf returns the links to the pictures before and behind that of a page.
func neighboursOf(page string) string {
	var found []string
	for _, m := range regexp.MustCompile(`<a rel="(prev|next)" href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		found = append(found, m[1]+" "+m[2])
	}
	return strings.Join(found, ", ")
}

func TestNeighbours(t *testing.T) {
	t.Parallel()
	n := start(t)
	files := map[string]string{
		"img10.png": pixel, "img9.png": pixel, "IMG2.png": pixel, "a.txt": "x", "z.png/x.png": pixel, "l.png": "-> a.txt",
		"j k&.svg": "<svg/>", "sub/one.png": pixel,
	}
	dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, files).String() + "/"
	for name, want := range map[string]string{
		"IMG2.png":    "next img9.png?view=preview",
		"img9.png":    "prev IMG2.png?view=preview, next img10.png?view=preview",
		"img10.png":   "prev img9.png?view=preview, next j%20k%26.svg?view=preview",
		"j%20k&.svg":  "prev img10.png?view=preview",
		"sub/one.png": "", "a.txt": "",
	} {
		a := do(t, "GET", dir+name+"?view=preview")
		if got := neighboursOf(a.body); got != want || a.Header.Get("ETag") == "" {
			t.Errorf("%s: %q, want %q; %s", name, got, want, a.Status)
		}
	}
	bare := n.Addrs().Gateway + "/b3/" + b3.Sum([]byte(pixel)).String() + "?view=preview"
	if got := neighboursOf(do(t, "GET", bare).body); got != "" {
		t.Errorf("a bare address has neighbours: %s", got)
	}
}

// TestNeighboursOfMany: a picture of a long directory takes no more reads than one of a short one for each manifest,
// and has no neighbours where the gallery has no order. One whose directory is not whole is shown all the same.
func TestNeighboursOfMany(t *testing.T) {
	if testing.Short() {
		t.Skip("a large directory")
	}
	t.Parallel()
	n := start(t)
	for entries, want := range map[int]string{
		9_000: "prev 4999.png?view=preview, next 5001.png?view=preview", 11_000: "",
	} {
		files := map[string]string{}
		for i := range entries {
			files[fmt.Sprintf("%d.png", i)] = pixel
		}
		root := n.objects.tree(t, files)
		page := n.Addrs().Gateway + "/b3/" + root.String() + "/5000.png?view=preview"
		n.objects.opened()
		if got := neighboursOf(do(t, "GET", page).body); got != want {
			t.Errorf("%d entries: %q, want %q", entries, got, want)
		}
		if opened := len(n.objects.opened()); opened > 200 {
			t.Errorf("%d entries: %d objects were opened", entries, opened)
		}
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	n := start(t)
	files := map[string]string{
		"a.csv": "name,=1+1\n\"<script>\",2\n", "b.tsv": "a\tb\n1,5\t2\n", "wide.csv": strings.Repeat("x,", 9_999) + "x\n",
		"long.csv": "a,b\n" + strings.Repeat("1,2\n", 100_000), "line.csv": strings.Repeat("é", 5<<20), "empty.csv": "\n",
		"quote.csv": "\"" + strings.Repeat("a\n", 200_000), "latin.csv": "caf\xe9,b\n",
	}
	dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, files).String() + "/"
	for name, want := range map[string][]string{
		"a.csv":     {`<th scope="col">=1+1</th>`, "<td>&lt;script&gt;</td>", `role="region" tabindex="0"`},
		"b.tsv":     {"<td>1,5</td><td>2</td>"},
		"wide.csv":  {"the first 64 columns"},
		"long.csv":  {"the first 1000 rows"},
		"line.csv":  {"This is the beginning, 256 KiB of 10 MiB."},
		"empty.csv": {`<pre class="lines">`},
		"quote.csv": {"the first 1000 bytes of a cell"},
		"latin.csv": {"no text in UTF-8"},
	} {
		a := do(t, "GET", dir+name+"?view=preview")
		for _, w := range want {
			if !strings.Contains(a.body, w) {
				t.Errorf("%s: %s, no %q in %.2000s", name, a.Status, w, a.body[max(0, strings.Index(a.body, "<main>")):])
			}
		}
		if len(a.body) > 3<<20 || strings.Contains(a.body, "<script") {
			t.Errorf("%s: %d bytes", name, len(a.body))
		}
		if !strings.Contains(a.body, `<a class="button" href="`+name+`" download>Download</a>`) {
			t.Errorf("%s: no button to download it", name)
		}
	}
	testkit.Eventually(t, "nothing held", func() bool { return n.current("gateway.page_bytes") == 0 })
}

// TestVisitorWords: a page of an error speaks to a visitor, and a program gets the details as they are.
func TestVisitorWords(t *testing.T) {
	t.Parallel()
	names := &fakeNames{named: map[string]content.Named{}, asked: map[string]int{}}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Names = names }})
	dir := "/b3/" + n.objects.tree(t, map[string]string{"a.txt": "x"}).String()
	operator := regexp.MustCompile("`|allium |gateway\\.|provider|corr_id")
	for path, c := range map[string]struct {
		want  string
		again bool
	}{
		"/b3/b3:" + strings.Repeat("0", 64): {"Nobody who can be reached at the moment", true},
		dir + "/nothing.txt":                {"the directory has no such entry. Open the directory", false},
		dir + "/a.txt/":                     {"it is a file. Leave out the slash", false},
		"/b3/x":                             {"is not an address", false},
		dir + "/?sort=date":                 {"parameter sort is", false},
		"/nothing":                          {"Check the URL", false},
	} {
		a := do(t, "GET", n.Addrs().Gateway+path, "Accept", "text/html")
		_, main, _ := strings.Cut(a.body, "<main>")
		lead, _, _ := strings.Cut(main, "</p>")
		if !strings.Contains(lead, c.want) || operator.MatchString(lead) {
			t.Errorf("%s: %s %s", path, a.Status, lead)
		}
		if again := strings.Contains(main, `<a href="">Try again</a>`); again != c.again {
			t.Errorf("%s: one may try again: %t", path, again)
		}
	}
}
