package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	devtools "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestBrowserPages opens errors, a site with its own style, font and images, pages
// that want more than content may have, names that are not simply seen, and a PDF.
func TestBrowserPages(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	var strangers atomic.Int32 // requests that reached another origin
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/asked" {
			strangers.Add(1)
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	defer other.Close()
	var problems, lost b3.Root
	n, _, _ := denying(t, false, func(o *fakeObjects) []string {
		problems = o.tree(t, map[string]string{
			"here.txt": "here", "denied.txt": "denied", "lost.txt": "nobody has it", "out": "-> ../../etc/passwd",
			"odd\u202etxt.exe/x": "x",
		})
		lost = o.add(&fakeObject{data: []byte("nobody has it"), err: status.Errorf(status.Timeout,
			"b3:%s: no provider found within 1.2s; try again, or connect to a peer that has it",
			strings.Repeat("0", 64))})
		return []string{b3.Sum([]byte("denied")).String()}
	})
	b := openBrowser(t)
	base := n.Addrs().Gateway

	t.Run("errors", func(t *testing.T) { b.seeProblems(t, base, problems, lost, axe) })

	t.Run("own style, font and images", func(t *testing.T) {
		root := n.objects.tree(t, map[string]string{
			"index.html": `<!doctype html><html lang="en"><title>A site</title><link rel="icon" href="p.png"><link ` +
				`rel="stylesheet" href="css/style.css">` +
				`<h1>Welcome</h1><p><span>AAAA</span><img src="img/p.png" alt=""><picture><img id="vector" src="img/v.svg" ` +
				`alt=""></picture>`,
			"css/style.css": `@import "more.css";
@font-face { font-family: Wide; src: url(../fonts/wide.woff2) format("woff2"); }
h1 { color: rgb(1, 2, 3); background-image: url(../img/p.png); }
span { font: 20px Wide, monospace; }`,
			"css/more.css":     `h1 { letter-spacing: 7px; }`,
			"fonts/wide.woff2": wideFont(),
			"p.png":            pixel, "img/p.png": pixel,
			"img/v.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><rect width="30" height="20"/></svg>`,
		})
		b.visit(t, chromedp.Navigate(base+"/b3/"+root.String()))
		for what, c := range map[string]struct{ js, want string }{
			"font": {`document.fonts.load("20px Wide").then((faces) => faces.map((f) => f.family + " " + ` +
				`f.status).join())`, "Wide loaded"},
			"font check": {`document.fonts.load("20px Wide").then(() => String(document.fonts.check("20px Wide")))`,
				"true"},
			"width of text": {`document.fonts.load("20px Wide").then(() => ` +
				`String(document.querySelector("span").getBoundingClientRect().width))`, "240"},
			"style":            {`getComputedStyle(document.querySelector("h1")).color`, "rgb(1, 2, 3)"},
			"imported style":   {`getComputedStyle(document.querySelector("h1")).letterSpacing`, "7px"},
			"image":            {`String(document.querySelector("img").naturalWidth)`, "1"},
			"image in vectors": {`String(document.querySelector("#vector").naturalWidth)`, "30"},
			"background": {`String(performance.getEntriesByType("resource").filter((e) => ` +
				`e.name.endsWith("/img/p.png") && e.responseStatus === 200).length > 0)`, "true"},
		} {
			if got := see(t, b, chromedp.Evaluate[string](c.js, await)); got != c.want {
				t.Errorf("%s: %q, want %q", what, got, c.want)
			}
		}
		b.shot(t, "own-site")
		b.quiet(t, "own site")
	})

	t.Run("scripts and others' content", func(t *testing.T) {
		ask := other.URL + "/asked"
		root := n.objects.tree(t, map[string]string{
			"index.html": `<!doctype html><title>before</title><link rel="icon" href="p.png">` +
				`<script>document.title = "inline"</script><script src="own.js"></script><script src="` + ask +
				`"></script>` +
				`<link rel="stylesheet" href="` + ask + `"><style>@font-face{font-family:Far;src:url(` + ask +
				`)}p{font-family:Far;background:url(` + ask + `)}</style>` +
				`<p onclick="document.title='handler'">text</p><img src="` + ask +
				`"><img src=x onerror="document.title='error'"><iframe src="` + ask + `"></iframe>` +
				`<object data="` + ask + `"></object><video src="` + ask + `"></video><form action="` + ask +
				`"><button>send</button></form>` +
				`<a id="js" href="javascript:document.title='link'">go</a>`,
			"own.js": `document.title = "own"`, "p.png": pixel,
			"v.svg": `<svg xmlns="http://www.w3.org/2000/svg"><title>before</title><script>document.title = ` +
				`"svg"</script><text y="20">svg</text></svg>`,
			"x.html": "", // of the image that fails
		})
		tree := base + "/b3/" + root.String()
		b.visit(t, chromedp.Navigate(tree+"/"))
		b.do(t, chromedp.Click(chromedp.CSS("p")), chromedp.Click(chromedp.CSS("#js")),
			chromedp.Click(chromedp.CSS("button")))
		if title, at := see(t, b, chromedp.Title()),
			see(t, b, chromedp.Location()); title != "before" || at != tree+"/" {
			t.Errorf("title %q at %s", title, at)
		}
		said := strings.Join(b.said(), "\n")
		for _, refused := range []string{"script", "stylesheet", "image", "fram", "form"} {
			if !strings.Contains(said, refused) {
				t.Errorf("nothing was refused about %q: %s", refused, said)
			}
		}
		b.visit(t, chromedp.Navigate(tree+"/v.svg"))
		if title := see(t, b, chromedp.Title()); title == "svg" {
			t.Error("the script in an image ran")
		}
		b.said()
		if got := strangers.Load(); got != 0 {
			t.Errorf("%d requests reached another origin", got)
		}
	})

	t.Run("names that are not simply seen", func(t *testing.T) {
		files := map[string]string{
			"invoice\u202etxt.exe.txt": `invoice\u{202E}txt.exe.txt`, "z\u200bero.txt": `z\u{200B}ero.txt`,
			"a\x01\x1b[31m\n.txt": `a\u{0001}\u{001B}[31m\u{000A}.txt`,
			"bom\ufeff\u2066.txt": `bom\u{FEFF}\u{2066}.txt`,
			"link\u202egpj":       `link\u{202E}gpj`, "dir\u202erid/in\u200fside.txt": `in\u{200F}side.txt`,
		}
		content := map[string]string{}
		for name := range files {
			content[name] = fmt.Sprintf("text %d", len(content))
		}
		content["link\u202egpj"] = "-> z\u200bero.txt"
		tree := base + "/b3/" + n.objects.tree(t, content).String() + "/"
		b.visit(t, chromedp.Navigate(tree))
		b.do(t, chromedp.EmulateViewport(390, 700))
		b.narrow(t, "odd names")
		b.do(t, chromedp.ResetViewport())
		b.accessible(t, axe, "odd names")
		for name, visible := range files {
			b.visit(t, chromedp.Navigate(tree))
			if dir, _, ok := strings.Cut(name, "/"); ok {
				b.visit(t, chromedp.Click(linkShown(`dir\u{202E}rid/`)))
				title := see(t, b, chromedp.Title())
				if title != `dir\u{202E}rid · allium` {
					t.Errorf("%q: title %q", dir, title)
				}
			}
			text := see(
				t, b, chromedp.Evaluate[string](
					`document.documentElement.outerHTML + document.documentElement.innerText`))
			if i := strings.IndexFunc(strings.NewReplacer("\n", "", "\t", "").Replace(text), unprintable); i >= 0 {
				t.Errorf("the listing of %q has a character that is not seen", name)
			}
			b.visit(t, chromedp.Click(linkShown(visible)))
			want := content[name]
			if strings.HasPrefix(want, "->") {
				want = content["z\u200bero.txt"]
			}
			got := see(t, b, chromedp.Evaluate[string](`document.querySelector("pre").textContent`))
			if strings.TrimSpace(got) != want {
				t.Errorf("%s leads to %q, want %q", visible, got, want)
			}
		}
		b.quiet(t, "odd names")
	})

	t.Run("PDF", func(t *testing.T) {
		began := make(chan string, 8) // bound: two pages are opened
		err := chromedp.ListenBrowser(b.ctx, func(ev any) {
			if ev, ok := ev.(*devtools.EventDownloadWillBegin); ok {
				began <- ev.URL
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = chromedp.CallBrowser(b.ctx, devtools.SetDownloadBehavior, devtools.SetDownloadBehaviorParams{
			Behavior: "deny", EventsEnabled: new(true),
		})
		if err != nil {
			t.Fatal(err)
		}
		url := base + "/b3/" + n.objects.tree(t, map[string]string{"pa per.pdf": onePage}).String() + "/pa%20per.pdf"
		resp := b.visit(t, chromedp.Navigate(url))
		how := fmt.Sprint(resp.Headers["Content-Disposition"])
		if resp.Status != http.StatusOK || resp.Headers["Content-Type"] != "application/pdf" ||
			!strings.HasPrefix(how, "inline;") || !strings.HasSuffix(how, "pa%20per.pdf") {
			t.Errorf("%d, %v", resp.Status, resp.Headers)
		}
		if shows := see(t, b, chromedp.Evaluate[string](`document.contentType`)); shows != "application/pdf" ||
			see(t, b, chromedp.Location()) != url {
			t.Errorf("the tab shows %s", shows)
		}
		b.shot(t, "pdf")
		b.quiet(t, "PDF")
		// The same by its address alone is offered for download: that is the first to begin.
		object := base + "/o/" + b3.Sum([]byte(onePage)).String()
		see(t, b, chromedp.Evaluate[string](fmt.Sprintf(`location.href = %q`, object)))
		select {
		case url := <-began:
			if url != object {
				t.Errorf("a download of %s began", url)
			}
		case <-time.After(patience):
			t.Error("no download began")
		}
	})
}

// linkShown selects the link of a listing that is shown as that name.
func linkShown(name string) string {
	return fmt.Sprintf(`//td[@class="name"]/a[.="%s"]`, name)
}

// onePage is a PDF of one empty page.
const onePage = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count " +
	"1>>endobj\n" +
	"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
