package viewer

import (
	_ "embed" // the page and its style
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/gateway/pack/tile"
	"allium/internal/limits"
	"allium/protocols/b3"
)

// The most of an author's texts that a page shows, in bytes, and of layers and warnings.
const (
	maxName     = 200
	maxProse    = 800
	maxLayers   = 100
	maxListed   = 1000 // items of a list of layers that are read
	maxWarnings = 20
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

// pageTemplate returns the template of the page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(exchange.NewPageTemplates().Parse(pageSource))
})

// Policy returns the Content-Security-Policy of the page. The page runs its one script, which its digest names,
// and requests tiles and the worker's file from its own origin. No string becomes a script, and no blob a worker.
var Policy = sync.OnceValue(func() string {
	return "default-src 'none'; script-src '" + assets().script.Integrity + "'; style-src '" +
		asset.Digest(string(exchange.PageStyle)) + "' '" + asset.Digest(pageStyle) +
		"'; worker-src 'self'; connect-src 'self'; " +
		"img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
})

// Facts describe a pack on its page.
type Facts struct {
	Name        string     // of the mount
	Info        *tile.Info // the texts in it may be anybody's
	Attribution string     // whom the pack credits, as text and not as HTML; Info's own is not used
	Root        b3.Root    // of the pack; zero for a file
	Size        int64      // of the pack in bytes
}

// Page writes the page of a pack as HTML. The answer needs [Policy].
func Page(w io.Writer, frame exchange.Frame, f Facts) error {
	a := assets()
	p := page{
		Frame: frame, Facts: f,
		PageStyle: template.CSS(pageStyle), //nolint:gosec // the program's own
		Script:    AssetsPath + a.script.Name, Integrity: a.script.Integrity,
		Worker: AssetsPath + a.worker.Name, Licence: AssetsPath + a.licence.Name,
	}
	p.Layers, p.MoreLayers = layerNames(f.Info)
	if err := pageTemplate().ExecuteTemplate(w, "pack", &p); err != nil {
		return fmt.Errorf("render the page of the pack %s: %w", exchange.Clip(f.Name), err)
	}
	return nil
}

// page is the data of the template. Its URLs are below Frame.Prefix.
type page struct {
	exchange.Frame
	Facts
	PageStyle                          template.CSS
	Script, Integrity, Worker, Licence string
	Layers                             []string
	MoreLayers                         bool // Layers are not all
}

// Title returns the name that the author gave the pack, or else that of the mount.
func (p *page) Title() string {
	if name := line(p.Info.Name, maxName); name != "" {
		return name
	}
	return p.Facts.Name
}

// Description returns the author's description, on one line.
func (p *page) Description() string { return line(p.Info.Description, maxProse) }

// Credits returns whom the pack credits, on one line.
func (p *page) Credits() string { return line(p.Attribution, maxProse) }

// Version returns the author's version of the pack.
func (p *page) Version() string { return line(p.Info.Version, maxName) }

// DescriptionURL returns the path of the pack's TileJSON.
func (p *page) DescriptionURL() string {
	return "/edge/packs/" + url.PathEscape(p.Facts.Name) + ".json"
}

// TilesURL returns the path of the pack's tiles, with placeholders.
func (p *page) TilesURL() string {
	return "/edge/packs/" + p.Facts.Name + "/{z}/{x}/{y}." + p.Info.Type.Ext()
}

// Format returns the format of the pack and of its tiles in words.
func (p *page) Format() string {
	s := map[string]string{"pmtiles": "PMTiles", "mbtiles": "MBTiles"}[p.Info.Format]
	if s == "" {
		s = line(p.Info.Format, maxName)
	}
	kind := "images"
	if p.Info.Type.Vector() {
		kind = "vector tiles"
	}
	s += ", " + kind + " (" + p.Info.Type.Ext()
	if p.Info.Encoding != tile.Identity {
		s += ", " + string(p.Info.Encoding)
	}
	return s + ")"
}

// Zooms returns the zooms in words.
func (p *page) Zooms() string {
	if p.Info.MinZoom == p.Info.MaxZoom {
		return strconv.Itoa(int(p.Info.MinZoom))
	}
	return fmt.Sprintf("%d to %d", p.Info.MinZoom, p.Info.MaxZoom)
}

// Bounds returns the bounds in words, or "".
func (p *page) Bounds() string {
	b := p.Info.Bounds
	if b == nil {
		return ""
	}
	return fmt.Sprintf("west %s, south %s, east %s, north %s",
		degrees(b[0]), degrees(b[1]), degrees(b[2]), degrees(b[3]))
}

// Center returns the place that the author wants shown first, or "".
func (p *page) Center() string {
	c := p.Info.Center
	if c == nil {
		return ""
	}
	return fmt.Sprintf("longitude %s, latitude %s, zoom %s", degrees(c[0]), degrees(c[1]), degrees(c[2]))
}

// degrees writes a number with at most 5 digits behind the point, which is a meter on the ground.
func degrees(v float64) string {
	s := strconv.FormatFloat(v, 'f', 5, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// SizeInWords returns the size in a readable unit.
func (p *page) SizeInWords() string { return limits.Bytes(p.Size).Human() }

// TileCount returns the number of tiles in words, or "".
func (p *page) TileCount() string {
	switch {
	case p.Info.Tiles <= 0:
		return ""
	case p.Info.Contents <= 0 || p.Info.Contents == p.Info.Tiles:
		return strconv.FormatInt(p.Info.Tiles, 10)
	}
	return fmt.Sprintf("%d, of which %d differ", p.Info.Tiles, p.Info.Contents)
}

// Warnings returns what is odd about the pack.
func (p *page) Warnings() []string {
	warnings := make([]string, 0, min(len(p.Info.Warnings), maxWarnings))
	for _, w := range p.Info.Warnings[:cap(warnings)] {
		warnings = append(warnings, line(w, maxProse))
	}
	return warnings
}

// layerNames returns the ids of the first layers of a pack, and whether there are more. It skips what has no id, and
// reads at most maxListed items.
func layerNames(info *tile.Info) (names []string, more bool) {
	n := 0
	for id := range info.Layers() {
		if n == maxListed || len(names) == maxLayers {
			return names, true
		}
		if n++; id != "" {
			names = append(names, line(id, maxName))
		}
	}
	return names, false
}

// line returns an author's text on one line, of at most most bytes, with characters written as numbers that change
// the direction of writing.
func line(text string, most int) string {
	cut := len(text) > most
	if cut {
		text = text[:most]
	}
	text = exchange.EscapeText(strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " "))
	if cut {
		text += " …"
	}
	return text
}
