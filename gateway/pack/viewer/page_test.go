package viewer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/gateway/pack/tile"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// render returns the page of a pack.
func render(t rapid.TB, f Facts) string {
	t.Helper()
	var out bytes.Buffer
	if err := Page(&out, exchange.Frame{Style: exchange.PageStyle, Prefix: "/below"}, f); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// shown returns the text of a page, without its style, with white space as one space.
func shown(page string) string {
	var text strings.Builder
	page = page[strings.Index(page, "<title>"):]
	for z := html.NewTokenizer(strings.NewReader(strings.ReplaceAll(page, pageStyle, ""))); ; {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(strings.Fields(text.String()), " ")
		case html.TextToken:
			text.Write(z.Text())
			text.WriteByte(' ')
		}
	}
}

// TestPage looks for the facts of a pack on its page.
func TestPage(t *testing.T) {
	t.Parallel()
	root := b3.Sum([]byte("pack"))
	f := Facts{
		Name: "city", Attribution: "© People & others", Root: root, Size: 5 << 20,
		Info: &tile.Info{
			Format: "mbtiles", Type: tile.MVT, Encoding: tile.Gzip, MinZoom: 3, MaxZoom: 12,
			Bounds: &[4]float64{-7.4, 43.723456789, 7.5, 80}, Center: &[3]float64{7.45, -0.000001, 10},
			Texts: tile.Texts{Name: "The  city\n of all", Description: "Streets.", Version: "4"}, Tiles: 1000, Contents: 900,
			VectorLayers: json.RawMessage(`[{"id":"roads"},{"id":"parks","minzoom":4}]`),
			Warnings:     []string{"One tile is empty."},
		},
	}
	page := render(t, f)
	text := shown(page)
	for _, want := range []string{
		"The city of all · allium", "Streets.", "Name city", "Format MBTiles, vector tiles (mvt, gzip)", "Version 4",
		"Zooms 3 to 12", "west -7.4, south 43.72346, east 7.5, north 80", "longitude 7.45, latitude 0, zoom 10",
		"Tiles 1000, of which 900 differ", "Size 5 MiB", "roads , parks", "© People & others", root.String(),
		"/below/edge/packs/city/{z}/{x}/{y}.mvt", "Note One tile is empty.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page shows %q, without %q", text, want)
		}
	}
	for _, want := range []string{
		`src="/below/edge/map/viewer-`, `data-worker="/below/edge/map/worker-`, `data-vector="true"`,
		`data-description="/below/edge/packs/city.json"`, `href="/below/b3/` + root.String() + `?view=preview"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}

	// What is not known is left out.
	text = shown(render(t, Facts{Name: "x", Info: &tile.Info{Format: "pmtiles", Type: tile.PNG}}))
	for _, bad := range []string{
		"Bounds", "Center", "Version", "Layers Layers", "Address", "Map data", "Note", "Tiles 0",
	} {
		if strings.Contains(text, bad) {
			t.Errorf("the page of a pack that says nothing shows %q: %q", bad, text)
		}
	}
	if !strings.Contains(text, "x · allium") || !strings.Contains(text, "Zooms 0 ") {
		t.Errorf("the page shows %q", text)
	}
}

// TestPolicy holds the page against its policy: each script and style sheet in it has its digest there, and nothing
// else would run.
func TestPolicy(t *testing.T) {
	t.Parallel()
	page := render(t, Facts{Name: "x", Info: &tile.Info{}})
	testkit.CheckPolicy(t, page, Policy(), asset.Digest)
}

// skeleton returns the elements and attributes of a page, without texts and values.
func skeleton(page string) string {
	var b strings.Builder
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken, html.CommentToken, html.DoctypeToken:
			token := z.Token()
			fmt.Fprintf(&b, "%s %s", token.Type, token.Data)
			for _, a := range token.Attr {
				b.WriteString(" " + a.Key)
			}
			b.WriteByte('\n')
		case html.TextToken:
		}
	}
}

// TestTextsStayTexts puts texts into every field: the page has the same elements, no character that misleads, and a
// bounded length.
func TestTextsStayTexts(t *testing.T) {
	t.Parallel()
	facts := func(text string) Facts {
		layers, err := json.Marshal([]map[string]string{{"id": text}})
		if err != nil {
			t.Fatal(err)
		}
		return Facts{Name: "x", Attribution: text, Info: &tile.Info{
			Format: text, Texts: tile.Texts{Name: text, Description: text, Version: text}, Encoding: tile.Encoding("gzip"),
			VectorLayers: layers, Warnings: []string{text},
		}}
	}
	want := skeleton(render(t, facts("word")))
	parts := rapid.SampledFrom([]string{
		"</script>", "<script>", `"`, "'", "<img src=x onerror=alert(1)>", "-->", "<!--", "</title>", "</style>",
		"{{.}}", "\u202e", "\u2066", "\x00", "\x1b[31m", "\n", "&lt;", "`", "${x}", "\\", "javascript:",
		"é", "漢", "\xff", "]]>",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := "word" + strings.Join(rapid.SliceOf(rapid.OneOf(parts, rapid.String())).Draw(t, "parts"), "")
		page := render(t, facts(text))
		if got := skeleton(page); got != want {
			t.Fatalf("%q changes the page:\n%s", text, got)
		}
		if strings.ContainsAny(page, "\u202e\u2066\x00\x1b") {
			t.Fatalf("%q misleads", text)
		}
	})
	const most = 64 << 10
	base := len(render(t, facts("word")))
	if got := len(render(t, facts(strings.Repeat("\u202e", 1<<20)))); got > base+most {
		t.Errorf("long texts make a page of %d bytes", got)
	}
}

// TestManyLayers lists the first layers alone, and says that there are more.
func TestManyLayers(t *testing.T) { // not parallel: it counts allocations
	some := func(n int) json.RawMessage {
		return json.RawMessage("[" + strings.Repeat(`{"id":"a"},{"id":""},`, n) + "{}]")
	}
	for list, want := range map[string]struct {
		names int
		more  bool
	}{
		string(some(3)):                                             {3, false},
		string(some(maxLayers)):                                     {maxLayers, true},
		string(some(maxLayers + 9)):                                 {maxLayers, true},
		"[" + strings.Repeat("{},", 1<<20) + `{"id":"a"}]`:          {0, true},
		`[{"id":7},null,"a",[],{"id":"a"},{"id":["x"]},{"id":"b"}]`: {2, false},
		`[{"id":"a"},{"id":"b"`:                                     {1, false},
		"":                                                          {},
		"null":                                                      {},
		"{}":                                                        {},
		"7":                                                         {},
		"[":                                                         {},
		"[[]]":                                                      {},
		`{"id":"a"}`:                                                {},
	} {
		names, more := layerNames(&tile.Info{VectorLayers: json.RawMessage(list)})
		if len(names) != want.names || more != want.more {
			t.Errorf("%.40s: %d names and more %t, want %v", list, len(names), more, want)
		}
	}
	hostile := &tile.Info{VectorLayers: json.RawMessage("[" + strings.Repeat("{},", 1<<20) + "{}]")}
	if n := testing.AllocsPerRun(1, func() { layerNames(hostile) }); n > 10*maxListed {
		t.Errorf("a long list of layers takes %.0f allocations", n)
	}
	warnings := make([]string, 1000)
	text := shown(render(t, Facts{Name: "x", Info: &tile.Info{Warnings: warnings}}))
	if n := strings.Count(text, "Note"); n != maxWarnings {
		t.Errorf("%d warnings are shown", n)
	}
}

// TestDegrees writes numbers, also those that are none.
func TestDegrees(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", -0.000001: "0", 10: "10", 100: "100", -180: "-180", 7.123456: "7.12346",
		math.Inf(1): "+Inf",
	} {
		if got := degrees(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
