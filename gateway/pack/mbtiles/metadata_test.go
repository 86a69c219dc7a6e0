package mbtiles

import (
	"bytes"
	"compress/gzip"
	"math"
	"strings"
	"testing"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// TestMetadata: what is invalid is ignored with a warning, and what is valid is kept beside it.
func TestMetadata(t *testing.T) {
	for name, tt := range map[string]struct {
		values string // of INSERT INTO metadata
		warns  string // empty: no warning
	}{
		"good": {`('name', 'A'), ('format', 'png'), ('bounds', ' -10, -20 ,30,40'), ('center', '1,2,3'),
			('json', '{"vector_layers": [{"id": "a"}]}')`, ""},
		"no format":        {`('name', 'A')`, "no format"},
		"other format":     {`('name', 'A'), ('format', 'jpg')`, "says format jpg. The first tile is png"},
		"control":          {"('name', 'A'), ('format', 'x' || char(27) || '[31m')", `x\x1b[31m`},
		"bounds":           {`('name', 'A'), ('format', 'png'), ('bounds', '1,2,3')`, "no list of 4 numbers"},
		"bounds NaN":       {`('name', 'A'), ('format', 'png'), ('bounds', 'NaN,2,3,4')`, "no list of 4 numbers"},
		"bounds too large": {`('name', 'A'), ('format', 'png'), ('bounds', '-181,2,3,4')`, "not degrees in order"},
		"bounds turned":    {`('name', 'A'), ('format', 'png'), ('bounds', '9,2,3,4')`, "not degrees in order"},
		"center":           {`('name', 'A'), ('format', 'png'), ('center', '0,0,99')`, "center is ignored"},
		"zoom":             {`('name', 'A'), ('format', 'png'), ('minzoom', '-1')`, "minzoom is ignored"},
		"no JSON":          {`('name', 'A'), ('format', 'png'), ('json', '{"vector_layers": ')`, "json is ignored"},
		"no list":          {`('name', 'A'), ('format', 'png'), ('json', '{"vector_layers": 3}')`, "json is ignored"},
		"odd layer":        {`('name', 'A'), ('format', 'png'), ('json', '{"vector_layers": [3]}')`, "json is ignored"},
		"deep JSON": {"('name', 'A'), ('format', 'png'), ('json', '" + strings.Repeat("[", 60000) + "')",
			"json is ignored"},
		"1 MiB": {`('name', 'A'), ('format', 'png'), ('description', zeroblob(1048576))`,
			"description is ignored: it has 1048576"},
		"large JSON":   {`('name', 'A'), ('format', 'png'), ('json', zeroblob(5000000))`, "it has 5000000"},
		"large others": {`('name', 'A'), ('format', 'png'), ('x', zeroblob(20000000)), (zeroblob(20000000), '')`, ""},
		"no UTF-8": {`('name', 'A'), ('format', 'png'), ('version', CAST(x'ff' AS TEXT))`,
			"version is ignored: it is not UTF-8"},
		"NULL":  {`('name', 'A'), ('format', 'png'), ('version', NULL), (NULL, NULL)`, ""},
		"twice": {`('name', 'A'), ('format', 'png'), ('name', 'B')`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			info := open(t, build(t, tables+onePNG+"INSERT INTO metadata VALUES "+tt.values)).Info()
			if info.Name != "A" || info.Type != tile.PNG {
				t.Errorf("%+v", info)
			}
			all := strings.Join(info.Warnings, "\n")
			if !strings.Contains(all, tt.warns) || (tt.warns == "") != (all == "") {
				t.Errorf("it warns %q", all)
			}
			if name == "good" && (*info.Bounds != [4]float64{-10, -20, 30, 40} || *info.Center != [3]float64{1, 2, 3} ||
				string(info.VectorLayers) != `[{"id":"a"}]`) {
				t.Errorf("%+v", info)
			}
			if info.Description != "" || info.Version != "" {
				t.Errorf("%q, %q", info.Description, info.Version)
			}
		})
	}
}

// TestFormats: the type comes from the tile, and from the metadata if the tile does not tell.
func TestFormats(t *testing.T) {
	for format, want := range map[string]tile.Type{
		"pbf": tile.MVT, "mvt": tile.MVT, "application/vnd.mapbox-vector-tile": tile.MVT,
		"application/x-protobuf": tile.MVT,
		"PNG":                    tile.PNG, "image/jpeg": tile.JPEG, "jpeg": tile.JPEG,
		" jpg": tile.JPEG, "webp": tile.WebP,
		"avif": tile.AVIF,
	} {
		info := open(t, build(t, tables+"INSERT INTO tiles VALUES (0, 0, 0, x'00');"+
			"INSERT INTO metadata VALUES ('format', '"+format+"');")).Info()
		if info.Type != want || info.Encoding != tile.Identity {
			t.Errorf("%q is %+v", format, info)
		}
	}
}

// TestOrder: rows that count from the north are noticed by the bounds, and rows in order are not accused.
func TestOrder(t *testing.T) {
	meta := "INSERT INTO metadata VALUES ('format', 'png'), ('bounds', '5,45,10,48');" // Switzerland
	png := "x'89504e470d0a1a0a')"
	for rows, want := range map[string]int{
		"(6, 33, 41, " + png:                                         0, // 6/33/22 from the north
		"(6, 33, 22, " + png:                                         1,
		"(6, 33, 22, " + png + ", (6, 33, 41, " + png:                0,
		"(6, 0, 0, " + png:                                           0, // outside in any order
		"(6, 33, -9223372036854775808, " + png:                       0,
		"(0, 0, 0, " + png + ", (31, 9223372036854775807, 1, " + png: 0,
	} {
		if info := open(t, build(t, tables+meta+"INSERT INTO tiles VALUES "+rows)).Info(); len(info.Warnings) != want {
			t.Errorf("%s: %q", rows, info.Warnings)
		}
	}
}

// TestZoomsOfMetadata: a view that has to be read whole for its zooms has those of its metadata.
func TestZoomsOfMetadata(t *testing.T) {
	script := `CREATE TABLE t (x, y, a, b, d); CREATE INDEX i ON t (x, y);
CREATE TABLE metadata (name, value); INSERT INTO metadata VALUES ('format', 'png'), ('minzoom', '2'), ('maxzoom', '3');
INSERT INTO t VALUES (0, 0, x'', 2, x'89504e470d0a1a0a'), (7, 7, x'', 3, x'89504e470d0a1a0a');
INSERT INTO t SELECT 1000 + key, 9, zeroblob(300000), 2, x'' FROM json_each('[` + strings.Repeat("1,", 150) + `1]');
CREATE VIEW tiles AS SELECT b AS zoom_level, x AS tile_column, y AS tile_row, d AS tile_data FROM t;
UPDATE t SET b = 17 - 14 WHERE b = 3; UPDATE t SET d = zeroblob(70000) WHERE x > 1000;`
	a := open(t, build(t, script))
	if i := a.Info(); a.looked || i.MinZoom != 2 || i.MaxZoom != 3 || len(i.Warnings) != 1 ||
		!strings.Contains(i.Warnings[0], "The zooms are those of the metadata") {
		t.Errorf("%+v", i)
	}
	if _, err := get(a, tile.Coord{Z: 3, X: 7}); err != nil {
		t.Error(err)
	}
}

// TestSample: tiles that are not of the pack's type are found, wherever a sample looks.
func TestSample(t *testing.T) {
	vector := []byte{0x1a, 0x03, 0x0a, 0x01, 'a'}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(vector)
	_ = w.Close()
	var bomb bytes.Buffer
	w = gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, tile.MaxBytes+1))
	_ = w.Close()
	webp := append([]byte("RIFF\x00\x00\x00\x00WEBP"), 0)
	for name, tt := range map[string]struct {
		kind tile.Type
		data []byte
		ok   bool
	}{
		"vector": {tile.MVT, vector, true}, "gzip": {tile.MVT, z.Bytes(), true},
		"cut gzip": {tile.MVT, z.Bytes()[:20], false},
		"bomb":     {tile.MVT, bomb.Bytes(), false}, "cut vector": {tile.MVT, vector[:4], false},
		"no name": {tile.MVT, []byte{0x1a, 0x02, 0x78, 0x02}, false}, "PNG as vector": {tile.MVT, []byte(png1), false},
		"PNG": {tile.PNG, []byte(png1), true}, "cut PNG": {tile.PNG, []byte(png1)[:20], false},
		"JPEG": {tile.JPEG, []byte{0xff, 0xd8, 0xff, 0xe0}, false}, "WebP": {tile.WebP, webp, true},
		"AVIF": {tile.AVIF, webp, false},
	} {
		if err := checkTile(tt.kind, tt.data); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	pack := build(t, tables+onePNG+"INSERT INTO tiles VALUES (1, 1, 0, x'ffd8ff');")
	a := open(t, pack)
	n, err := a.Sample(t.Context())
	if status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), "tile 1/1/1: it is no png") {
		t.Errorf("%d, %v", n, err)
	}
	if got := someZooms(0, 31); len(got) != zoomsOfSample || got[0] != 0 || got[len(got)-1] != 31 {
		t.Errorf("%v", got)
	}
	if got := someZooms(4, 4); len(got) != 1 || got[0] != 4 {
		t.Errorf("%v", got)
	}
}

// TestTouches: tiles touch their own centre.
func TestTouches(t *testing.T) {
	for _, z := range []uint8{0, 1, 6, 31} {
		x := int64(1)<<z - 1
		y := x / 3
		lat := latitude((float64(y) + 0.5) / math.Exp2(float64(z)))
		lon := (float64(x)+0.5)/math.Exp2(float64(z))*360 - 180
		point := [4]float64{lon, lat, lon, lat}
		if !touches(z, x, y, point) || z > 1 && touches(z, x-2, y, point) {
			t.Errorf("%d/%d/%d does not lie at %f, %f", z, x, y, lon, lat)
		}
	}
}
