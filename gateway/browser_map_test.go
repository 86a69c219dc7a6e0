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

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// softwareGL makes a browser draw WebGL without a graphics card.
var softwareGL = []chromedp.ExecAllocatorOption{
	chromedp.Flag("disable-gpu", false), chromedp.Flag("use-gl", "angle"), chromedp.Flag("use-angle", "swiftshader"),
	chromedp.Flag("enable-unsafe-swiftshader", true), chromedp.Flag("ignore-gpu-blocklist", true),
}

// watchRequests returns a function that returns the URLs that the tab requested from others than base.
func (b *browser) watchRequests(t *testing.T, base string) func() []string {
	t.Helper()
	var strange []string
	err := chromedp.Listen(b.ctx, func(ev any) {
		if ev, ok := ev.(*network.EventRequestWillBeSent); ok && !strings.HasPrefix(ev.Request.URL, base+"/") {
			b.mu.Lock()
			defer b.mu.Unlock()
			strange = append(strange, ev.Request.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		return strange
	}
}

// mapState waits until the page's script has drawn the map, or failed, and returns which.
func (b *browser) mapState(t *testing.T) string {
	t.Helper()
	return see(t, b, chromedp.Poll[string](`(() => {
	const state = document.getElementById("viewer").dataset.state;
	return state === "loading" ? "" : state;
})()`))
}

// share returns which part of what the map shows has about a color.
func (b *browser) share(t *testing.T, want color.RGBA) float64 {
	t.Helper()
	see(t, b, chromedp.Evaluate[int](`document.getElementById("map").scrollIntoView(), 1`))
	box := see(t, b, chromedp.Evaluate[[]int](`(({left, top, right, bottom}) =>
	[left, top, right, Math.min(bottom, innerHeight)].map(Math.floor))(
	document.getElementById("map").getBoundingClientRect())`))
	shot, err := png.Decode(bytes.NewReader(see(t, b, chromedp.CaptureScreenshot())))
	if err != nil {
		t.Fatal(err)
	}
	n, seen := 0, image.Rect(box[0], box[1], box[2], box[3]).Intersect(shot.Bounds())
	near := func(got uint32, want uint8) bool { return math.Abs(float64(got>>8)-float64(want)) <= 12 }
	for y := seen.Min.Y; y < seen.Max.Y; y++ {
		for x := seen.Min.X; x < seen.Max.X; x++ {
			if r, g, b, _ := shot.At(x, y).RGBA(); near(r, want.R) && near(g, want.G) && near(b, want.B) {
				n++
			}
		}
	}
	return float64(n) / float64(seen.Dx()*seen.Dy())
}

// TestBrowserMaps draws packs of each kind at the width of a phone and of a desk. ALLIUM_SCREENSHOTS keeps what it
// saw. No request leaves for elsewhere, and nothing breaks the policy of the page.
func TestBrowserMaps(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	white := color.RGBA{255, 255, 255, 255}
	s := newMapServer(t)
	b := openBrowser(t, softwareGL...)
	strange := b.watchRequests(t, s.URL)
	for _, c := range []struct {
		pack  string
		color color.RGBA // of the tiles, or of the ground of a map of vectors
	}{
		{"png", color.RGBA{200, 30, 30, 255}},
		{"webp", color.RGBA{30, 140, 70, 255}},
		{"avif", color.RGBA{30, 140, 70, 255}},
		{"vector", white},
		{"unlisted", white},
		{"hostile", white},
	} {
		for _, width := range []int{390, 1280} {
			where := fmt.Sprintf("map-%s-%d", c.pack, width)
			b.do(t, chromedp.EmulateViewport(int64(width), 900), chromedp.Navigate(s.page(c.pack)))
			if state := b.mapState(t); state != "drawn" {
				t.Fatalf("%s: %s: %s", where, state, see(t, b, chromedp.Text("#status")))
			}
			if said := see(t, b, chromedp.Text("main")); strings.Contains(said, "could not") {
				t.Errorf("%s: %s", where, said)
			}
			if wide := see(t, b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); wide > width {
				t.Errorf("%s: %d pixels wide", where, wide)
			}
			got, least, most := b.share(t, c.color), 0.7, 1.0
			if c.color == white {
				least, most = 0.4, 0.9 // the area covers a quarter of the world, and the world not all of a wide map
			}
			if got < least || got > most {
				t.Errorf("%s: %.2f of the map has the color of its tiles or its ground", where, got)
			}
			b.accessible(t, axe, where)
			b.quiet(t, where)
		}
	}
	if title := see(t, b, chromedp.Title()); !strings.HasPrefix(title, "</script><img") {
		t.Errorf("the title of a hostile pack is %q", title)
	}
	if urls := strange(); len(urls) > 0 {
		t.Errorf("the pages requested %q", urls)
	}
}

// TestBrowserMapAnswers uses a map by keys and by the mouse, and looks at what the page says.
func TestBrowserMapAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	s := newMapServer(t)
	b := openBrowser(t, softwareGL...)
	text := func(id string) string {
		return see(t, b, chromedp.Evaluate[string](`document.getElementById("`+id+`").textContent`))
	}
	until := func(condition string) {
		t.Helper()
		holds := chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(patience/4))
		if _, err := chromedp.Run(b.ctx, holds); err != nil {
			t.Fatalf("%s: %v; the map is at %q", condition, err, text("position"))
		}
	}
	where := func(part string) {
		t.Helper()
		until(fmt.Sprintf(`document.getElementById("position").textContent.includes(%q)`, part))
	}

	b.do(t, chromedp.Navigate(s.page("vector")))
	b.mapState(t)
	for range 10 {
		b.do(t, chromedp.KeyEvent("\t"))
		if see(t, b, chromedp.Evaluate[string](`document.activeElement.ariaLabel ?? ""`)) == "Map of A triangle" {
			break
		}
	}
	if on := see(t, b, chromedp.Evaluate[string](`document.activeElement.localName`)); on != "canvas" {
		t.Fatalf("the key Tab leads to %s", on)
	}
	b.do(t, chromedp.KeyEvent("\r"))
	found := text("found")
	for _, want := range []string{
		"2 features here.", "land area", "roads line", `</script><img src=x onerror`, "Tile 0/0/0",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("at the middle the page shows %q, without %q", found, want)
		}
	}
	where("Zoom 0.0; in the middle tile 0/0/0, 0.00000, 0.00000")
	b.do(t, chromedp.KeyEvent("="))
	where("Zoom 1.0")
	b.do(t, chromedp.KeyEvent(kb.ArrowRight))
	until(`parseFloat(document.getElementById("position").textContent.split(", ")[1]) > 10`)
	b.do(t, chromedp.Click(`#whole`))
	where("Zoom 0.0; in the middle tile 0/0/0, 0.00000, 0.00000")
	b.do(t, chromedp.Click(`#closer`))
	where("Zoom 1.0")
	b.do(t, chromedp.Click(`#farther`))
	where("Zoom 0.0")

	// Without its area the map has a road and a place.
	white := color.RGBA{255, 255, 255, 255}
	before := b.share(t, white)
	b.do(t, chromedp.Click(`#layers label:nth-of-type(1) input`))
	for b.share(t, white) < before+0.05 { // the test's context bounds this
	}
	b.prefer(t, "dark")
	for b.share(t, color.RGBA{28, 27, 36, 255}) < before+0.05 { // as above
	}
	b.prefer(t, "")
	b.do(t, chromedp.Click(chromedp.CSS(`#map`)))
	until(`document.getElementById("found").textContent.includes("1 feature here.")`)
	b.accessible(t, axe, "map-found")
	b.quiet(t, "vector")

	// A real tile, of tippecanoe.
	b.do(t, chromedp.Navigate(s.page("fixture")))
	b.mapState(t)
	if layers := text("layers"); layers != "Layerstest_fixture_1pmtiles" {
		t.Errorf("the layers are %q", layers)
	}
	const strangers = `document.querySelectorAll("#viewer img, #viewer script").length`
	if n := see(t, b, chromedp.Evaluate[int](strangers)); n != 0 {
		t.Errorf("the page has %d elements of the pack's author", n)
	}
	b.quiet(t, "fixture")

	b.do(t, chromedp.Navigate(s.page("noise")))
	until(`document.getElementById("status").textContent.startsWith("The pack names no layers")`)
	b.quiet(t, "noise")

	// A tile that the pack does not have is no fault.
	for _, pack := range []string{"sparse", "hollow"} {
		b.do(t, chromedp.Navigate(s.page(pack)))
		if state, said := b.mapState(t), text("status"); state != "drawn" || said != "" {
			t.Errorf("%s: %s: %s", pack, state, said)
		}
		for _, said := range b.said() {
			if !strings.Contains(said, "status of 404") {
				t.Errorf("%s: the console says %s", pack, said)
			}
		}
	}
	b.do(t, chromedp.Navigate(s.page("deep")))
	until(`document.getElementById("status").textContent.includes("its tiles begin at zoom 30")`)

	b.do(t, chromedp.Navigate(s.page("failing")))
	until(`document.getElementById("status").textContent.includes("could not be loaded: the answer was 503")`)
	b.do(t, chromedp.Navigate("about:blank")) // the other tiles have failed, or are not waited for any more
	for _, said := range b.said() {
		if !strings.Contains(said, "status of 503") {
			t.Errorf("the console says %s", said)
		}
	}

	// Who has no script has the facts.
	b.scriptless(t)
	b.do(t, chromedp.Navigate(s.page("png")))
	shown := see(t, b, chromedp.Text("main"))
	for _, want := range []string{
		"runs no scripts", "PMTiles, images (png)", "2 to 14", "west 7.3, south 43.5, east 7.6, north 43.8",
		"4000, of which 1 differ", "121 KiB", "© A surveyor", "/edge/packs/png/{z}/{x}/{y}.png", "The rows may be",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("without scripts the page shows %q, without %q", shown, want)
		}
	}
	b.shot(t, "map-without-scripts")
	b.quiet(t, "without scripts")
}

// TestBrowserMapWithoutGraphics opens a map in a browser that cannot draw one: the page says so.
func TestBrowserMapWithoutGraphics(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	axe := axeScript(t)
	s := newMapServer(t)
	b := openBrowser(t, chromedp.Flag("disable-3d-apis", true))
	b.do(t, chromedp.EmulateViewport(390, 900), chromedp.Navigate(s.page("vector")))
	state, said := b.mapState(t), see(t, b, chromedp.Text("#status"))
	if state != "failed" || !strings.Contains(said, "This browser cannot draw the map") {
		t.Errorf("%s: %s", state, said)
	}
	b.said()
	b.accessible(t, axe, "map-without-graphics-390")
}
