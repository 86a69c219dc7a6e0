package pmtiles_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/tile"
	"allium/internal/testkit"
)

// written writes all archives of a table into a new directory, as 0.pmtiles and so on, and the fixtures
// of others too. It returns their paths.
func written(t *testing.T) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	add := func(p []byte) {
		file := filepath.Join(dir, strconv.Itoa(len(files))+".pmtiles")
		if err := os.WriteFile(file, p, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	for _, test := range archives() {
		add(packtest.PMTiles(test.tiles, test.o))
	}
	for _, fixture := range []string{"test_fixture_1.pmtiles", "unclustered.pmtiles"} {
		p, err := os.ReadFile(filepath.Join("testdata", fixture))
		if err != nil {
			t.Fatal(err)
		}
		add(p)
	}
	return dir, files
}

// oracleZoom is the deepest zoom of the archives that others read too.
const oracleZoom = 5

// tilesOf returns the tiles of an archive by z/x/y, as Find and Read give them: decompressed.
func tilesOf(t *testing.T, file string) map[string][]byte {
	t.Helper()
	p, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := open(t, p)
	tiles := map[string][]byte{}
	for c := range packtest.Pyramid(0, oracleZoom, nil, func(tile.Coord) []byte { return nil }) {
		p, err := read(t.Context(), a, c)
		if err != nil {
			continue // TestTiles says which may be missing
		}
		if a.Info().Encoding == tile.Gzip {
			if p, err = packtest.Gunzip(p); err != nil {
				t.Fatal(err)
			}
		}
		tiles[c.String()] = p
	}
	if len(tiles) == 0 {
		t.Fatalf("%s has no tiles", file)
	}
	return tiles
}

// compare reports the first difference between our tiles and those of another reader.
func compare(t *testing.T, file string, ours, theirs map[string][]byte) {
	t.Helper()
	for c, p := range ours {
		if q, ok := theirs[c]; !ok || !bytes.Equal(p, q) {
			t.Errorf("%s: tile %s is %q, and %q to them", filepath.Base(file), c, p, q)
			return
		}
	}
	if len(ours) != len(theirs) {
		t.Errorf("%s: %d tiles, and %d to them", filepath.Base(file), len(ours), len(theirs))
	}
}

// TestClientOfBrowsers: the npm package pmtiles reads the same tiles from each archive.
func TestClientOfBrowsers(t *testing.T) {
	if testing.Short() {
		t.Skip("another program works")
	}
	t.Parallel()
	tools, err := filepath.Abs("../../../tools/pmtiles")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		testkit.Missing(t, "needs node: whether the PMTiles client of browsers reads the same tiles is not tested")
	}
	if _, err := os.Stat(filepath.Join(tools, "node_modules", "pmtiles")); err != nil {
		testkit.Missing(t, "the npm package pmtiles is not installed: whether it reads the same tiles is not tested; "+
			"run `make bin/tools/pmtiles`")
	}
	_, files := written(t)
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"read.js", strconv.Itoa(oracleZoom)}, files...)...)
	cmd.Dir, cmd.Stderr = tools, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs []struct {
		Zooms [2]uint8
		Tiles map[string][]byte
	}
	if err := json.Unmarshal(out, &theirs); err != nil || len(theirs) != len(files) {
		t.Fatalf("%d archives of %d: %v", len(theirs), len(files), err)
	}
	for i, file := range files {
		compare(t, file, tilesOf(t, file), theirs[i].Tiles)
	}
}

// goPMTiles returns the path of go-pmtiles.
func goPMTiles(t *testing.T) string {
	t.Helper()
	tool, err := filepath.Abs("../../../bin/tools/go-pmtiles")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tool); err != nil {
		testkit.Missing(t, "go-pmtiles is not installed: whether it reads and writes the same tiles is not tested; run "+
			"`make bin/tools/go-pmtiles`")
	}
	return tool
}

// TestGoPMTilesReads: go-pmtiles finds the archives valid and serves the same tiles.
func TestGoPMTilesReads(t *testing.T) {
	if testing.Short() {
		t.Skip("another program works")
	}
	t.Parallel()
	tool := goPMTiles(t)
	dir, files := written(t)
	for _, file := range files[:len(archives())] {
		if out, err := exec.CommandContext(t.Context(), tool, "verify", file).CombinedOutput(); err != nil {
			t.Errorf("verify %s: %v: %s", filepath.Base(file), err, out)
		}
	}
	base := serve(t, tool, dir)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	for i, file := range files {
		p, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := open(t, p)
		info, theirs := a.Info(), map[string][]byte{}
		for c := range packtest.Pyramid(info.MinZoom, info.MaxZoom, nil, func(tile.Coord) []byte { return nil }) {
			url := fmt.Sprintf("%s/%d/%s.%s", base, i, c, info.Type.Ext())
			resp, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			p, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.Header.Get("Content-Encoding") == "gzip" && err == nil {
				p, err = packtest.Gunzip(p)
			}
			switch {
			case err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent:
				t.Fatalf("%s: %s, %v", url, resp.Status, err)
			case resp.StatusCode == http.StatusOK:
				theirs[c.String()] = p
			}
		}
		compare(t, file, tilesOf(t, file), theirs)
	}
}

// serve starts the server of go-pmtiles for a directory and returns its address.
func serve(t *testing.T, tool, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := exec.CommandContext(t.Context(), tool, "serve", dir, "--interface=127.0.0.1", fmt.Sprintf("--port=%d", port))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("go-pmtiles serve:\n%.2000s", out.String())
		}
	})
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	testkit.Eventually(t, "go-pmtiles serves", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return base
}

// TestGoPMTilesWrites: an archive that go-pmtiles has written again has the same tiles.
func TestGoPMTilesWrites(t *testing.T) {
	t.Parallel()
	tool := goPMTiles(t)
	for _, test := range archives() {
		if !test.o.Unclustered && test.name != "runs, leaves" && test.name != "gzip tiles" {
			continue
		}
		file := filepath.Join(t.TempDir(), "x.pmtiles")
		test.o.Unclustered, test.o.Gzip = true, true // it clusters no archive that is clustered
		if err := os.WriteFile(file, packtest.PMTiles(test.tiles, test.o), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), tool, "cluster", file).CombinedOutput(); err != nil {
			t.Fatalf("%s: cluster: %v: %s", test.name, err, out)
		}
		p, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := open(t, p)
		if err := differs(t.Context(), a, test.tiles, test.max+1); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if c, err := a.Count(t.Context()); err != nil || c.Tiles != int64(len(test.tiles)) ||
			c.Contents != a.Info().Contents {
			t.Errorf("%s: %+v, %v, and %+v", test.name, c, err, a.Info())
		}
		if info := a.Info(); info.MaxZoom != test.max || info.Type != test.o.Type || info.Encoding != test.o.Encoding {
			t.Errorf("%s: %+v", test.name, info)
		}
	}
}
