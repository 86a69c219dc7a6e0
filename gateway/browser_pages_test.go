package gateway

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"allium/gateway/content"
	"allium/gateway/weblink"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// picture returns a PNG that looks like a landscape at dusk.
func picture(t testing.TB, n int) string {
	t.Helper()
	const width, height = 320, 240
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			hill := 150 + 30*math.Sin(float64(x)/40+float64(n)) + 12*math.Sin(float64(x)/13+float64(2*n))
			c := color.RGBA{uint8(250 - y/2), uint8(180 - y/3), uint8(120 + y/3 + 10*n), 255}
			if float64(y) > hill {
				c = color.RGBA{uint8(60 + 20*n), uint8(90 - y/8), uint8(80 + 8*n), 255}
			}
			img.SetRGBA(x, y, c)
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// tone returns a WAV file of a tenth of a second.
func tone() string {
	samples := make([]byte, testkit.WAVRate/10)
	for i := range samples {
		samples[i] = byte(128 + 60*math.Sin(float64(i)/4))
	}
	return string(testkit.WAV(samples))
}

// aTicket is a ticket as a node with two public addresses makes it.
const aTicket = "allium15vqqzq2cyr4g793akwrg9yj7gjgutevdfwe4qmhcc98t0z5xayyv2cj2vusq7pz" +
	"cycqzgzqpzgsg4z8rm46qnuv4l4fdktfuhfwh9jn8pxl3m9qjr0ehfzqpks8k7hq6a6mng"

// withTicket makes pages offer aTicket.
func withTicket(d *Deps) { d.Ticket = func(content.TicketFor) string { return aTicket } }

// longName has no place where a line could break.
var longName = strings.Repeat("long", 60) + ".txt"

// album is a directory with something for each kind of preview.
func album(t testing.TB) map[string]string {
	files := map[string]string{
		"Readme.md": "# A week by the sea\n\nSome *pictures* and [notes](notes.txt) of `2026`.\n\n" +
			"![The bay](beach-2.png)\n\n" +
			"## What is here\n\n| day | weather |\n|---|---|\n| Monday | sun |\n| Tuesday | wind |\n\n" +
			"- shells\n- a **lighthouse**\n\n" +
			"```go\nfmt.Println(\"sea\")\n```\n\n> It was good.\n",
		"notes.txt": "by the sea\n\n\tindented\nthe last line\n",
		"main.go":   "package main\n\nfunc main() {\n\tprintln(1)\n}\n",
		"sea.csv":   "day,wind,note\nMonday,3,\"calm, then not\"\nTuesday,7,=1+1\n",
		"paper.pdf": onePage, "tone.wav": tone(), "clip.webm": tone(), "archive.zip": "PK\x03\x04",
		"not-an-image.png": "text",
		"page.html":        "<!doctype html><title>page</title>", "Makefile": "all:\n", "latest": "-> beach-10.png",
		"logo.svg": `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 30"><rect width="40" height="30" fill="#cde"/>` +
			`<circle cx="20" cy="15" r="9" fill="#5140b8"/></svg>`,
		"years/2026/July/deep/er/x.txt": "deep\n", "Originals/a.txt": "a", "originals 2/a.txt": "a",
		"years/2026/" + longName: longName, "years/2026/\u202ebidi\nline.txt": "x",
		"years/2026/صورة.png": picture(t, 0),
	}
	for i := range 12 {
		files[fmt.Sprintf("beach-%d.png", i+1)] = picture(t, i)
	}
	return files
}

// scriptless turns scripts of pages off. Tests still evaluate theirs.
func (b *browser) scriptless(t *testing.T) {
	t.Helper()
	off := emulation.SetScriptExecutionDisabledParams{Value: true}
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, off)
	if err != nil {
		t.Fatal(err)
	}
}

// TestBrowserLooks looks at each kind of page at the width of a phone and of a desk, in light and dark colors.
// ALLIUM_SCREENSHOTS keeps what it saw. The pages have
// no scripts, so they are the same where none run. (axe itself needs timers, which such a browser has not.)
func TestBrowserLooks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	n := startWith(t, hooks{deps: func(d *Deps) { withTicket(d); d.Example = b3.Sum(nil) }})
	root := n.objects.tree(t, album(t))
	tree := n.Addrs().Gateway + "/b3/" + root.String() + "/"
	folder := n.link(t, weblink.Options{Root: root, Name: "album"}).own
	file, _ := n.file(t, weblink.Options{Downloads: 3, NotAfter: time.Now().Add(time.Hour)})
	b := openBrowser(t)
	for _, c := range []struct {
		name, url string
	}{
		{"landing", n.Addrs().Gateway + "/"},
		{"list", tree},
		{"gallery", tree + "?view=gallery"},
		{"filtered", tree + "?view=list&filter=BEACH&sort=size&order=desc"},
		{"nothing", tree + "?filter=nothing"},
		{"below", tree + "years/2026/July/deep/er/"},
		{"odd-names", tree + "years/2026/"},
		{"odd-gallery", tree + "years/2026/?view=gallery"},
		{"long-name", tree + "years/2026/" + longName + "?view=preview"},
		{"text", tree + "main.go?view=preview#L3"},
		{"table", tree + "sea.csv?view=preview"},
		{"called", tree + "?view=list&name=A+week+by+the+sea"},
		{"problem", tree + "nothing.txt"},
		{"markdown", tree + "Readme.md?view=preview"},
		{"image", tree + "beach-2.png?view=preview"},
		{"no-image", tree + "not-an-image.png?view=preview"},
		{"audio", tree + "tone.wav?view=preview"},
		{"video", tree + "clip.webm?view=preview"},
		{"archive", tree + "archive.zip?view=preview"},
		{"pdf-page", tree + "paper.pdf?view=preview"},
		{"link", folder},
		{"link-gallery", folder + "?view=gallery"},
		{"link-below", folder + "years/2026/July/deep/er/"},
		{"link-image", folder + "beach-2.png?view=preview"},
		{"link-file", file.own},
	} {
		for _, width := range []int{390, 1280} {
			where := fmt.Sprintf("%s-%d", c.name, width)
			b.do(t, chromedp.EmulateViewport(int64(width), 900), chromedp.Navigate(c.url))
			if wide := see(t, b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); wide > width {
				t.Errorf("%s: %d pixels wide", where, wide)
			}
			if n := see(t, b, chromedp.Evaluate[int](`document.scripts.length`)); n > 0 {
				t.Errorf("%s: %d scripts", where, n)
			}
			if c.name == "problem" {
				b.said() // of its status
			}
			b.quiet(t, where)
			if c.name == "list" {
				see(t, b, chromedp.Evaluate[bool](`document.querySelector(".ticket").open = true`))
				const sorts = `[...document.querySelectorAll("thead button")].filter((a) => a.offsetWidth).length`
				if n := see(t, b, chromedp.Evaluate[int](sorts)); n != 3 {
					t.Errorf("%s: %d orders are offered", where, n)
				}
			}
			b.accessible(t, axe, where)
		}
	}
}

// TestBrowserWithoutScripts sorts, filters and looks at files in a browser that runs no scripts, by mouse and by keys.
func TestBrowserWithoutScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	n := startWith(t, hooks{deps: withTicket})
	tree := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, album(t)).String() + "/"
	b := openBrowser(t)
	b.scriptless(t)
	first := `document.querySelector("tbody tr:nth-child(4) td.name a").textContent`
	b.visit(t, chromedp.Navigate(tree))
	if got := see(t, b, chromedp.Evaluate[string](first)); got != "archive.zip" {
		t.Errorf("the first file is %s", got)
	}
	b.visit(t, chromedp.Click(`th.size button`))
	b.visit(t, chromedp.Click(`th.size button`))
	if got := see(t, b, chromedp.Evaluate[string](first)); !strings.HasPrefix(got, "beach-") {
		t.Errorf("the largest file is %s", got)
	}
	b.do(t, chromedp.SendKeys("#filter", "BEACH-1"))
	b.visit(t, chromedp.Submit("#filter"))
	if got := see(t, b, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`)); got != 4 {
		t.Errorf("%d entries have BEACH-1", got)
	}
	b.visit(t, chromedp.Click(`.views li:nth-child(2) button`))
	const loaded = `[...document.images].filter((i) => i.closest(".gallery") && i.complete && i.naturalWidth).length`
	for see(t, b, chromedp.Evaluate[int](loaded)) != 4 { // the test's context bounds this
	}
	b.visit(t, chromedp.Click(`.gallery li:nth-child(1) a`))
	if got := see(t, b, chromedp.Evaluate[int](`document.querySelector(".shown img").naturalWidth`)); got != 320 {
		t.Errorf("the picture is %d wide", got)
	}
	b.quiet(t, "pictures")
	first = see(t, b, chromedp.Text("h1"))
	b.visit(t, chromedp.Click(`a[rel="next"]`))
	next := see(t, b, chromedp.Text("h1"))
	b.visit(t, chromedp.Click(`a[rel="prev"]`))
	if got := see(t, b, chromedp.Text("h1")); got != first || next == first {
		t.Errorf("behind %s is %s, and before that %s", first, next, got)
	}

	// One click selects the whole address and the whole command.
	b.do(t, chromedp.Click(`.get div:nth-child(2) code`))
	got := see(t, b, chromedp.Evaluate[string](`getSelection().toString()`))
	if !strings.HasPrefix(got, "allium get b3:") || !strings.HasSuffix(got, ".png") {
		t.Errorf("a click selects %q", got)
	}
	for name, shows := range map[string]string{
		"clip.webm": `document.querySelector("video").duration > 0`,
		"tone.wav":  `document.querySelector("audio").duration > 0`,
		"Readme.md": `document.querySelector(".prose img").naturalWidth == 320`,
		"paper.pdf": `document.querySelector("object").offsetHeight > 100`,
	} {
		b.visit(t, chromedp.Navigate(tree+name+"?view=preview"))
		for !see(t, b, chromedp.Evaluate[bool](shows)) { // as above
		}
		b.quiet(t, name)
	}

	// A link to a line shows which one it is.
	b.visit(t, chromedp.Navigate(tree+"main.go?view=preview#L3"))
	got = see(t, b, chromedp.Evaluate[string](`document.querySelector(":target").textContent`))
	if got != "func main() {\n" {
		t.Errorf("the line is %q", got)
	}
	b.visit(t, chromedp.Navigate(tree))
	if got := see(t, b, chromedp.Text(".readme h1")); got != "A week by the sea" {
		t.Errorf("below the list is %q", got)
	}

	// Keys alone: to the heading of the column, and back to a file.
	focused := func(want string) {
		t.Helper()
		for range 200 {
			b.do(t, chromedp.KeyEvent("\t"))
			const focused = `((e) => e.getAttribute("href") || e.getAttribute("aria-label") || e.textContent)(` +
				`document.activeElement)`
			if see(t, b, chromedp.Evaluate[string](focused)) == want {
				return
			}
		}
		t.Fatalf("no key leads to %s", want)
	}
	b.visit(t, chromedp.Navigate(tree))
	focused("Ticket and QR code")
	b.do(t, chromedp.KeyEvent("\r"))
	if !see(t, b, chromedp.Evaluate[bool](`document.querySelector(".ticket").open`)) {
		t.Error("Enter does not open the ticket")
	}
	focused("Kind")
	b.visit(t, chromedp.KeyEvent("\r"))
	focused("Look at main.go")
	b.visit(t, chromedp.KeyEvent("\r"))
	if got := see(t, b, chromedp.Text("h1")); got != "main.go" {
		t.Errorf("Enter leads to %s", got)
	}
	b.quiet(t, "keys")
}
