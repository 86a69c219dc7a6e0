package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/gateway/pack"
	"allium/gateway/pack/packtest"
	"allium/gateway/pack/tile"
	"allium/gateway/policy"
	"allium/gateway/server"
	"allium/internal/env"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// vectorTile is a stored vector tile, and pngTile a raster tile, of the packs of startPacks.
var (
	vectorTile = packtest.Gzip(packtest.Content(tile.MVT, "a vector tile"))
	pngTile    = packtest.Content(tile.PNG, "a raster tile")
)

// packObjects are the objects of a gateway as packs read them.
type packObjects map[b3.Root][]byte

func (p packObjects) Keep(b3.Root) (release func()) { return func() {} }

func (p packObjects) OpenObject(_ context.Context, root b3.Root, _ bool) (b3.Content, error) {
	if c, ok := p[root]; ok {
		return packContent{bytes.NewReader(c)}, nil
	}
	return nil, status.Errorf(status.NotFound, "nobody has %s", root)
}

type packContent struct{ *bytes.Reader }

func (c packContent) Close() error { return nil }
func (c packContent) Copy(_ context.Context, w io.Writer, start, end int64) error {
	_, err := io.Copy(w, io.NewSectionReader(c, start, end-start))
	return err
}

// packKeys takes addresses, and for the name maps.zone any that is set.
type packKeys struct{ name b3.Root }

func (k packKeys) FindObject(_ context.Context, key string) (pack.Found, error) {
	if key == "maps.zone" {
		return pack.Found{Root: k.name, Named: true, TTL: 100e9}, nil
	}
	root, err := b3.Parse(key)
	return pack.Found{Root: root}, err
}

// startPacks runs a gateway with the packs of packSet.
func startPacks(t *testing.T, cors ...string) *testNode {
	t.Helper()
	return startWith(t, hooks{deps: func(d *Deps) { d.Edge.Packs = packSet(t, d.Env, cors...) }})
}

// packSet runs a set with the packs vector and raster (files), fixed (an address) and named, and one that is bad.
func packSet(t *testing.T, e env.Env, cors ...string) *pack.Set {
	t.Helper()
	dir := t.TempDir()
	all := func(tile.Coord) []byte { return vectorTile }
	some := func(c tile.Coord) bool { return c.X != 1 || c.Z < 1 }
	vector := packtest.PMTiles(packtest.Pyramid(0, 2, some, all), packtest.Options{
		Type: tile.MVT, Encoding: tile.Gzip, Gzip: true,
		Metadata: `{"name":"A <b>name</b>","attribution":"<a href=\"https://x.example\">© X & Y</a><script>alert(1)</script>",` +
			`"vector_layers":[{"id":"roads","fields":{}}]}`,
	})
	raster := packtest.PMTiles(packtest.Pyramid(1, 2, some, func(tile.Coord) []byte { return pngTile }),
		packtest.Options{Type: tile.PNG})
	for name, p := range map[string][]byte{"v.pmtiles": vector, "r.pmtiles": raster} {
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root := b3.Sum(vector)
	cfg := pack.DefaultConfig()
	cfg.Dir = dir
	if len(cors) > 0 {
		cfg.CORS = cors
	}
	cfg.Packs = map[string]pack.Mount{
		"vector": {File: "v.pmtiles"}, "raster": {File: "r.pmtiles"}, "fixed": {Key: root.String()},
		"named": {Key: "maps.zone"}, "bad": {File: "none.pmtiles"},
	}
	set, err := pack.New(cfg, pack.Deps{
		Env: e, Objects: packObjects{root: vector}, Keys: packKeys{root}, Filter: policy.AllowAll{},
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, set.Run)
	testkit.Eventually(t, "the packs are mounted", func() bool {
		have, _, why := set.Shut()
		return have == 4 && strings.HasPrefix(why, "bad")
	})
	return set
}

// mapAsset returns the path of a file that the page of a pack loads.
func mapAsset(t *testing.T, n *testNode) string {
	t.Helper()
	page := do(t, "GET", n.Addrs().Gateway+"/edge/packs/vector/")
	_, after, found := strings.Cut(page.body, `<script src="`)
	path, _, closed := strings.Cut(after, `"`)
	if !found || !closed {
		t.Fatalf("%s %s", page.Status, page.body)
	}
	return path
}

// TestMapPage: the page of a pack has its facts, and the policy that its script needs.
func TestMapPage(t *testing.T) {
	t.Parallel()
	n := startPacks(t)
	a := do(t, "GET", n.Addrs().Gateway+"/edge/packs/fixed/")
	if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "A &lt;b&gt;name&lt;/b&gt;") ||
		!strings.Contains(a.Header.Get("Content-Security-Policy"), "worker-src 'self'") ||
		!strings.Contains(a.body, "© X &amp; Y") {
		t.Errorf("%s %v %s", a.Status, a.Header, a.body)
	}
	if a := do(t, "GET", n.Addrs().Gateway+mapAsset(t, n)); a.StatusCode != http.StatusOK || len(a.body) < 100_000 {
		t.Errorf("the script: %s, %d bytes", a.Status, len(a.body))
	}
}

// TestTiles asks for tiles in every way.
func TestTiles(t *testing.T) {
	t.Parallel()
	n := startPacks(t)
	base := n.Addrs().Gateway + "/edge/packs/"
	plain, err := gunzip(vectorTile)
	if err != nil {
		t.Fatal(err)
	}
	mvt := tile.MVT.Media()
	for _, c := range []struct {
		path, accept      string
		code              int
		body, media, said string // said: in the problem, or empty
		caching           string
	}{
		{"vector/0/0/0.mvt", "gzip", 200, string(vectorTile), mvt, "", "no-cache"},
		{"vector/0/0/0.pbf", "br, gzip;q=0.5", 200, string(vectorTile), mvt, "", "no-cache"},
		{"vector/0/0/0.mvt", "", 200, string(plain), mvt, "", "no-cache"},
		{"vector/0/0/0.mvt", "gzip;q=0", 200, string(plain), mvt, "", "no-cache"},
		{"vector/0/0/0.mvt", "*", 200, string(vectorTile), mvt, "", "no-cache"},
		{"fixed/2/3/3.mvt", "gzip", 200, string(vectorTile), mvt, "", "public, max-age=31536000, immutable"},
		{"named/2/3/3.mvt", "gzip", 200, string(vectorTile), mvt, "", "public, max-age=N"},
		{"raster/1/0/1.png", "", 200, string(pngTile), "image/png", "", "no-cache"},
		{"vector/1/1/0.mvt", "gzip", 204, "", "", "", "no-cache"},
		{"raster/1/1/0.png", "", 404, "", "", "no tile 1/1/0", ""},
		{"raster/0/0/0.png", "", 404, "", "", "no zoom 0", ""},
		{"vector/3/0/0.mvt", "", 404, "", "", "no zoom 3: it has 0 to 2", ""},
		{"vector/2/4/0.mvt", "", 404, "", "", "0 to 3", ""},
		{"vector/2/0/4.mvt", "", 404, "", "", "0 to 3", ""},
		{"vector/0/0/0.png", "", 400, "", "", "0/0/0.mvt", ""},
		{"raster/1/0/0.webp", "", 400, "", "", "1/0/0.png", ""},
		{"vector/0/0/0", "", 400, "", "", "0/0/0.mvt", ""},
		{"vector/00/0/0.mvt", "", 400, "", "", "whole numbers", ""},
		{"vector/-1/0/0.mvt", "", 400, "", "", "whole numbers", ""},
		{"vector/1/+1/0.mvt", "", 400, "", "", "whole numbers", ""},
		{"vector/1/4294967296/0.mvt", "", 400, "", "", "whole numbers", ""},
		{"vector/999/0/0.mvt", "", 400, "", "", "whole numbers", ""},
		{"vector/1/0.mvt", "", 400, "", "", "PACK/Z/X/Y.EXT", ""},
		{"vector/1/0/0/0.mvt", "", 400, "", "", "PACK/Z/X/Y.EXT", ""},
		{"none/0/0/0.mvt", "", 404, "", "", "no pack", ""},
		{"bad/0/0/0.mvt", "", 503, "", "", "not mounted", ""},
		{"..%2fvector/0/0/0.mvt", "", 400, "", "", "", ""},
		{"UPPER/0/0/0.mvt", "", 404, "", "", "no pack", ""},
		{"..", "", 404, "", "", "no pack", ""},
	} {
		var headers []string
		if c.accept != "" {
			headers = []string{"Accept-Encoding", c.accept}
		}
		a := do(t, "GET", base+c.path, headers...)
		if a.StatusCode != c.code {
			t.Errorf("%s (%s): %s %.200s", c.path, c.accept, a.Status, a.body)
			continue
		}
		if c.code > 299 {
			if !strings.Contains(a.body, c.said) {
				t.Errorf("%s: %q is not in %s", c.path, c.said, a.body)
			}
			continue
		}
		caching, left := a.Header.Get("Cache-Control"), 0 // a name's 100 s, less what the test took so far
		if n, _ := fmt.Sscanf(caching, "public, max-age=%d", &left); n == 1 && left < 100 {
			caching = "public, max-age=N"
		}
		if a.body != c.body || a.Header.Get("Content-Type") != c.media || caching != c.caching {
			t.Errorf("%s (%s): %q, %v", c.path, c.accept, a.body, a.Header)
		}
		if encoded := a.Header.Get("Content-Encoding") == "gzip"; encoded != (c.body == string(vectorTile)) {
			t.Errorf("%s (%s): Content-Encoding %q", c.path, c.accept, a.Header.Get("Content-Encoding"))
		}
		if head := do(t, "HEAD", base+c.path, headers...); head.StatusCode != c.code || head.body != "" ||
			head.Header.Get("Etag") != a.Header.Get("Etag") ||
			head.Header.Get("Content-Length") != a.Header.Get("Content-Length") {
			t.Errorf("HEAD %s: %s %v", c.path, head.Status, head.Header)
		}
	}
}

func gunzip(p []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// TestTileConditions: the ETag is the address of the stored bytes, and that of the plain tile another one.
func TestTileConditions(t *testing.T) {
	t.Parallel()
	n := startPacks(t)
	at := n.Addrs().Gateway + "/edge/packs/fixed/0/0/0.mvt"
	a := do(t, "GET", at, "Accept-Encoding", "gzip")
	etag := a.Header.Get("Etag")
	if want := `"` + b3.Sum(vectorTile).String() + `"`; etag != want {
		t.Errorf("%s, want %s", etag, want)
	}
	if plain := do(t, "GET", at).Header.Get("Etag"); plain == etag || plain == "" {
		t.Errorf("plain: %s", plain)
	}
	if a.Header.Get("Vary") != "Accept-Encoding" || a.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("%v", a.Header)
	}
	a = do(t, "GET", at, "Accept-Encoding", "gzip", "If-None-Match", etag)
	if a.StatusCode != http.StatusNotModified || a.body != "" ||
		a.Header.Get("Etag") != etag || a.Header.Get("Cache-Control") == "" {
		t.Errorf("If-None-Match: %s %v", a.Status, a.Header)
	}
	a = do(t, "GET", at, "Accept-Encoding", "gzip", "If-Match", `"x"`)
	if a.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("If-Match: %s", a.Status)
	}
	for result, want := range map[string]float64{"sent": 2, "not_modified": 1, "refused": 1} {
		if got := n.counter("pack_tiles_total", result); got != want {
			t.Errorf("pack_tiles_total{result=%q} is %v, want %v", result, got, want)
		}
	}
}

// TestTileJSON: the description has URLs that the client reaches, of tiles that never change.
func TestTileJSON(t *testing.T) {
	t.Parallel()
	n := startPacks(t)
	gate := n.Addrs().Gateway
	a := do(t, "GET", gate+"/edge/packs/vector.json")
	var d api.TileJSON
	if err := json.Unmarshal([]byte(a.body), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Tiles) != 1 || !strings.HasPrefix(d.Tiles[0], gate+"/edge/packs/vector/{z}/{x}/{y}.mvt?v=") ||
		d.MinZoom != 0 || d.MaxZoom != 2 || d.Name != "A <b>name</b>" || len(d.VectorLayers) != 1 ||
		d.TileJSON != "3.0.0" {
		t.Errorf("%s", a.body)
	}
	if d.Attribution != "© X &amp; Yalert(1)" {
		t.Errorf("attribution %q", d.Attribution)
	}
	at := strings.NewReplacer("{z}", "2", "{x}", "0", "{y}", "0").Replace(d.Tiles[0])
	if a := do(t, "GET", at); a.StatusCode != http.StatusOK ||
		!strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %s %v", at, a.Status, a.Header)
	}
	again := do(t, "GET", gate+"/edge/packs/vector.json", "If-None-Match", a.Header.Get("Etag"))
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("If-None-Match: %s", a.Status)
	}
	if a := do(t, "GET", gate+"/edge/packs/raster.json"); !strings.Contains(a.body, `"vector_layers":[]`) ||
		!strings.Contains(a.body, `"minzoom":1`) {
		t.Errorf("%s", a.body)
	}
	if a := do(t, "GET", gate+"/edge/packs/vector"); a.StatusCode != http.StatusMovedPermanently ||
		a.Header.Get("Location") != "/edge/packs/vector/" {
		t.Errorf("%s %v", a.Status, a.Header)
	}
}

// TestPacksCrossOrigin: edge.cors says whose pages may read packs.
func TestPacksCrossOrigin(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	for _, c := range []struct {
		cors []string
		want string
	}{{nil, "*"}, {[]string{app}, app}, {[]string{"https://other.example"}, ""}} {
		n := startPacks(t, c.cors...)
		for _, path := range []string{"raster.json", "raster/1/0/0.png", "raster/1/1/0.png"} {
			a := do(t, "GET", n.Addrs().Gateway+"/edge/packs/"+path, "Origin", app)
			if got := a.Header.Get("Access-Control-Allow-Origin"); got != c.want {
				t.Errorf("%v: %s: %q, want %q", c.cors, path, got, c.want)
			}
		}
	}
}

// TestPacksWinOverGatewayOrigins: gateway.cors_origins lets no page read packs that edge.cors does not.
func TestPacksWinOverGatewayOrigins(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	packs := func(d *Deps) { d.Edge.Packs = packSet(t, d.Env, "https://other.example") }
	n := startWith(t, hooks{deps: packs}, func(c *Config, _ *server.AdminConfig) { c.CORSOrigins = []string{app} })
	for _, path := range []string{"raster.json", "raster/1/0/0.png", "raster/1/1/0.png", "none.json", "a/b"} {
		a := do(t, "GET", n.Addrs().Gateway+"/edge/packs/"+path, "Origin", app)
		if got := a.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: %q", path, got)
		}
	}
	a := do(t, "GET", n.Addrs().Gateway+"/healthz", "Origin", app)
	if got := a.Header.Get("Access-Control-Allow-Origin"); got != app {
		t.Errorf("another path: %q", got)
	}
}
