package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/exchange"
	"allium/gateway/pack/tile"
	"allium/gateway/pack/viewer"
	"allium/protocols/b3"
)

// plainAnswer is a Transport of [exchange.Response] without bounds.
type plainAnswer struct{ http.ResponseWriter }

func (p plainAnswer) Unwrap() http.ResponseWriter { return p.ResponseWriter }
func (p plainAnswer) Flush() error                { return http.NewResponseController(p.ResponseWriter).Flush() }
func (p plainAnswer) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(p.ResponseWriter).SetWriteDeadline(at)
}
func (plainAnswer) StartTransfer(int) error { return nil }
func (plainAnswer) ReleaseAdmission()       {}
func (plainAnswer) EvictFetched()           {}
func (plainAnswer) ReadTimedOut()           {}
func (plainAnswer) PassedFile() *os.File    { return nil }
func (plainAnswer) User() string            { return "" }

// mapServer serves the pages of packs below a prefix, as a gateway behind a proxy does.
type mapServer struct {
	*httptest.Server
	packs map[string]*mapPack
}

// mapPack is a pack whose tiles are all the same.
type mapPack struct {
	facts    viewer.Facts
	tileJSON map[string]any
	tile     []byte
	code     int // of the answer to a tile; 0: 200
}

const mapPrefix = "/behind/a-proxy"

func (s *mapServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, mapPrefix)
	if !ok {
		http.NotFound(w, r)
		return
	}
	answer := &exchange.Response{Prefix: mapPrefix}
	answer.Begin(plainAnswer{w})
	if name, ok := strings.CutPrefix(path, viewer.AssetsPath); ok {
		if err := viewer.Endpoint().Serve(answer, r, exchange.Input{Rest: name}); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
		}
		return
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(path, "/edge/packs/"), "/")
	name, described := strings.CutSuffix(name, ".json")
	p := s.packs[name]
	switch {
	case path == "/favicon.ico":
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	case p == nil:
		http.NotFound(w, r)
	case described:
		// The node may not know how its clients name it.
		p.tileJSON["tiles"] = []string{"https://other.invalid" + mapPrefix + "/edge/packs/" + name + "/{z}/{x}/{y}." +
			p.facts.Info.Type.Ext() + "?v=1"}
		_ = json.NewEncoder(w).Encode(p.tileJSON)
	case rest == "":
		w.Header().Set("Content-Security-Policy", viewer.Policy())
		w.Header().Set("Content-Type", exchange.MediaHTML)
		if err := viewer.Page(w, answer.Frame(), p.facts); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	case p.code != 0:
		w.WriteHeader(p.code)
	default:
		w.Header().Set("Content-Type", p.facts.Info.Type.Media())
		if p.facts.Info.Encoding != tile.Identity {
			w.Header().Set("Content-Encoding", string(p.facts.Info.Encoding))
		}
		_, _ = w.Write(p.tile)
	}
}

// page returns the URL of a pack's page.
func (s *mapServer) page(name string) string { return s.URL + mapPrefix + "/edge/packs/" + name + "/" }

// newMapServer serves a pack of each kind.
func newMapServer(t *testing.T) *mapServer {
	t.Helper()
	read := func(name string) []byte {
		p, err := os.ReadFile(filepath.Join("pack", "viewer", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	red := image.NewRGBA(image.Rect(0, 0, 256, 256))
	draw.Draw(red, red.Bounds(), image.NewUniform(color.RGBA{200, 30, 30, 255}), image.Point{}, draw.Src)
	var redPNG bytes.Buffer
	if err := png.Encode(&redPNG, red); err != nil {
		t.Fatal(err)
	}
	s := &mapServer{packs: map[string]*mapPack{}}
	add := func(name string, p *mapPack, kind tile.Type) {
		p.facts.Name, p.facts.Info.Type, p.facts.Info.Format = name, kind, "pmtiles"
		p.facts.Size = 123_456
		p.tileJSON["minzoom"], p.tileJSON["maxzoom"] = p.facts.Info.MinZoom, p.facts.Info.MaxZoom
		if b := p.facts.Info.Bounds; b != nil {
			p.tileJSON["bounds"] = b
		}
		s.packs[name] = p
	}
	images := func(content []byte) *mapPack {
		return &mapPack{
			facts: viewer.Facts{
				Info: &tile.Info{
					MinZoom: 2, MaxZoom: 14, Bounds: &[4]float64{7.3, 43.5, 7.6, 43.8},
					Texts: tile.Texts{Description: "Images of a coast."},
					Tiles: 4000, Contents: 1, Warnings: []string{"The rows may be in the order of XYZ."},
				},
				Attribution: "© A surveyor", Root: b3.Sum(content),
			},
			tileJSON: map[string]any{}, tile: content,
		}
	}
	vector := func(layers string, content []byte) *mapPack {
		return &mapPack{
			facts: viewer.Facts{Info: &tile.Info{
				Texts: tile.Texts{Name: "A triangle"}, Encoding: tile.Gzip, VectorLayers: json.RawMessage(layers),
			}},
			tileJSON: map[string]any{"vector_layers": json.RawMessage(layers)}, tile: content,
		}
	}
	add("png", images(redPNG.Bytes()), tile.PNG)
	add("webp", images(read("green.webp")), tile.WebP)
	add("avif", images(read("green.avif")), tile.AVIF)
	const bad = `</script><img src=x onerror=document.title=1>{{.}}`
	drawing := gzipped(t, drawingTile(bad))
	add("vector", vector(`[{"id":"land"},{"id":"roads"},{"id":"places"},{"id":"empty"}]`, drawing), tile.MVT)
	add("unlisted", vector(`[]`, drawing), tile.MVT)
	add("noise", vector(`[]`, gzipped(t, noise(1000))), tile.MVT)
	add("fixture", vector(`[]`, read("t1.mvt.gz")), tile.MVT)
	hostile := vector(`[{"id":"`+bad+`"},{"id":"land"},{"id":"a\u202eb"},{"id":7},null,{},{"id":""},{"id":"`+
		strings.Repeat("long", 100)+`"}]`, drawing)
	hostile.facts.Info.Name, hostile.facts.Info.Description = bad, bad+"\u202e"+strings.Repeat("long", 1000)
	hostile.facts.Attribution, hostile.facts.Info.Version = bad, bad
	hostile.facts.Info.Warnings = []string{bad}
	hostile.tileJSON["name"], hostile.tileJSON["attribution"] = bad, bad
	add("hostile", hostile, tile.MVT)
	failing := images(nil)
	failing.code = http.StatusServiceUnavailable
	add("failing", failing, tile.PNG)
	sparse, hollow := images(nil), vector(`[{"id":"land"}]`, nil)
	sparse.code, hollow.code = http.StatusNotFound, http.StatusNoContent
	add("sparse", sparse, tile.PNG)
	add("hollow", hollow, tile.MVT)
	deep := images(nil)
	deep.facts.Info.MinZoom, deep.facts.Info.MaxZoom = 30, 31
	add("deep", deep, tile.PNG)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// drawingTile returns a vector tile: an area around its middle, which has a property, a road through it, and a place.
func drawingTile(property string) []byte {
	field := func(to []byte, n uint64, content []byte) []byte {
		to = binary.AppendUvarint(to, n<<3|2)
		return append(binary.AppendUvarint(to, uint64(len(content))), content...)
	}
	number := func(to []byte, n, v uint64) []byte { return binary.AppendUvarint(binary.AppendUvarint(to, n<<3), v) }
	packed := func(values ...uint64) (p []byte) {
		for _, v := range values {
			p = binary.AppendUvarint(p, v)
		}
		return p
	}
	move, line, closed := uint64(1), uint64(2), uint64(1<<3|7)
	at := func(x, y int64) []uint64 { return []uint64{uint64(x<<1 ^ x>>63), uint64(y<<1 ^ y>>63)} } // zigzag
	shape := func(parts ...[]uint64) []byte { return packed(slices.Concat(parts...)...) }
	layer := func(to []byte, name string, kind uint64, geometry []byte) []byte {
		feature := number(field(nil, 2, packed(0, 0)), 3, kind)
		l := field(nil, 1, []byte(name))
		l = field(l, 2, field(feature, 4, geometry))
		l = field(l, 3, []byte("note"))
		l = field(l, 4, field(nil, 1, []byte(property)))
		return field(to, 3, number(number(l, 5, 4096), 15, 2))
	}
	p := layer(nil, "land", 3, shape([]uint64{1<<3 | move}, at(1024, 1024), []uint64{3<<3 | line}, at(2048, 0),
		at(0, 2048), at(-2048, 0), []uint64{closed}))
	p = layer(p, "roads", 2, shape([]uint64{1<<3 | move}, at(0, 2048), []uint64{1<<3 | line}, at(4096, 0)))
	return layer(p, "places", 1, shape([]uint64{1<<3 | move}, at(1500, 1500)))
}
