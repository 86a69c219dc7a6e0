package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	imagepkg "image"
	"image/png"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"allium/bench/bed"
	"allium/bench/measure"
	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
)

// The pack that is measured: tiles of packTile bytes at the zooms from 0 to packZoom. wrk asks for those of packZoom.
const (
	packTile = 20 << 10
	packZoom = 5
)

// Packs measures tiles under wrk: of a mounted file, a database and an address, beside nginx, which serves the
// same tiles as files, and go-pmtiles, which serves the same pack. The tiles of one pack fit the node's cache and those
// of all three do not, so each is warmed before it is measured.
func Packs(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	nginx, err := nginxPath()
	if _, missing := exec.LookPath("wrk"); err != nil || missing != nil {
		fmt.Println("tiles under wrk: not measured, as they need the programs wrk and nginx")
		return nil, nil
	}
	dir, home := filepath.Join(s.Dir, "tiles"), filepath.Join(s.Dir, "packshome")
	if err := packContent(ctx, s, dir, home); err != nil {
		return nil, err
	}
	node, err := s.StartNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = node.Stop() }()
	web, err := startNginx(ctx, nginx, dir, s.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = web.Stop() }()
	theirs, err := startGoPMTiles(ctx, filepath.Join(home, "packs"))
	if err != nil {
		return nil, err
	}
	if theirs != nil {
		defer func() { _, _ = theirs.Stop() }()
	}
	bare, err := bed.Reference(ctx, "tile", node.Gate+"/edge/packs/file/0/0/0.png")
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = bare.Stop() }()
	script, err := tileScript(s.Dir)
	if err != nil {
		return nil, err
	}
	pack := func(name string) string { return node.Gate + "/edge/packs/" + name }
	file := measure.Row{What: "tiles of a PMTiles file ÷ nginx", Unit: "×", Target: "≥ 0.9"}
	tail := measure.Row{What: "tiles of a PMTiles file: p99 ÷ nginx", Unit: "×", Target: "≤ 1.5"}
	cpu := measure.Row{What: "tiles of a PMTiles file: CPU", Unit: "µs/request"}
	rate := measure.Row{What: "tiles of a PMTiles file: requests", Unit: "/s"}
	floor := measure.Row{What: "tiles of a PMTiles file ÷ a bare handler", Unit: "×", Target: "≥ 0.9"}
	floorCPU := measure.Row{What: "a tile of a bare handler: CPU", Unit: "µs/request"}
	floorTail := measure.Row{What: "tiles of a PMTiles file: p99 ÷ a bare handler", Unit: "×"}
	base := measure.Row{What: "tiles of nginx: requests", Unit: "/s"}
	database := measure.Row{What: "tiles of an MBTiles file ÷ nginx", Unit: "×", Target: "≥ 0.4"}
	address := measure.Row{What: "tiles of an address ÷ PMTiles file", Unit: "×", Target: "≥ 0.6"}
	other := measure.Row{What: "tiles of a PMTiles file ÷ go-pmtiles", Unit: "×", Target: "≥ 3"}
	for range s.Rounds {
		var got [5]loaded
		for j, from := range []struct {
			p   *measure.Process
			url string
		}{{node, pack("file")}, {web, web.Gate}, {node, pack("database")}, {node, pack("address")}, {bare, bare.Gate}} {
			for range 2 { // the first warms
				if got[j], err = wrk(ctx, from.p, from.url, script); err != nil {
					return nil, err
				}
			}
		}
		var go1 loaded
		if theirs != nil {
			if go1, err = wrk(ctx, theirs, theirs.Gate+"/file", script); err != nil {
				return nil, err
			}
		}
		file.Values = append(file.Values, got[0].rate/got[1].rate)
		tail.Values = append(tail.Values, got[0].p99.Seconds()/got[1].p99.Seconds())
		cpu.Values = append(cpu.Values, got[0].cpu.Seconds()*1e6)
		rate.Values, base.Values = append(rate.Values, got[0].rate), append(base.Values, got[1].rate)
		database.Values = append(database.Values, got[2].rate/got[1].rate)
		address.Values = append(address.Values, got[3].rate/got[0].rate)
		floor.Values = append(floor.Values, got[0].rate/got[4].rate)
		floorCPU.Values = append(floorCPU.Values, got[4].cpu.Seconds()*1e6)
		floorTail.Values = append(floorTail.Values, got[0].p99.Seconds()/got[4].p99.Seconds())
		if theirs != nil {
			other.Values = append(other.Values, got[0].rate/go1.rate)
		}
	}
	rows := []measure.Row{file, tail, cpu, rate, floor, floorCPU, floorTail, base, database, address}
	if theirs != nil {
		rows = append(rows, other)
	}
	return rows, nil
}

// Replay returns a handler that answers as url does now: with the same header and the same bytes, from memory. It is
// what net/http can do with a tile.
func Replay(ctx context.Context, url string) (http.Handler, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", url, resp.Status), err)
	}
	header := resp.Header
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		_, _ = w.Write(body) // wrk went away
	}), nil
}

// PackOfPeer measures the first byte of a tile of a pack that one peer has, with all directories above it, beside
// that of an object of that peer.
func PackOfPeer(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	has, asks := filepath.Join(s.Dir, "packhas"), filepath.Join(s.Dir, "packasks")
	for _, home := range []string{has, asks} {
		if err := s.MakeHome(ctx, home); err != nil {
			return nil, err
		}
	}
	holder, err := s.StartNodeAs(ctx, asMapper, bed.OnTCP, has)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = holder.Stop() }()
	asker, err := s.StartNodeAs(ctx, asMapper, bed.OnTCP, asks, holder.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = asker.Stop() }()
	file := filepath.Join(s.Dir, "deep.pmtiles")
	if err := os.WriteFile(file, packtest.Deep(), 0o600); err != nil {
		return nil, err
	}
	key, _, err := s.Add(ctx, has, file)
	if err != nil {
		return nil, err
	}
	if _, err := s.Run(ctx, asks, "pack", "mount", "deep", key, "--temporary"); err != nil {
		return nil, err
	}
	first := measure.Row{What: "first byte: a tile that a peer has", Unit: "ms"}
	object := measure.Row{What: "first byte: an object that this peer has", Unit: "ms"}
	for _, id := range packtest.DeepCold() {
		const size = 64 << 10
		one, err := s.Publish(ctx, has, size)
		if err != nil {
			return nil, err
		}
		took, err := bed.FirstByte(ctx, asker.Gate+"/o/"+one, size)
		if err != nil {
			return nil, err
		}
		object.Values = append(object.Values, bed.MS(took))
		tile := fmt.Sprintf("%s/edge/packs/deep/%s.png", asker.Gate, pmtiles.CoordOf(id))
		if took, err = bed.FirstByte(ctx, tile, packtest.DeepTile); err != nil {
			return nil, err
		}
		first.Values = append(first.Values, bed.MS(took))
	}
	return []measure.Row{first, object, {What: "first byte: that tile ÷ that object", Unit: "×", Target: "≤ 3",
		Values: measure.Pairs(first.Values, object.Values)}}, nil
}

// asMapper are the flags of the nodes of benchPackOfPeer.
var asMapper = []string{"--profile", "testnet", "--gateway", "127.0.0.1:0"}

// packContent writes the tiles as files, and mounts them at a home as file, database and address.
func packContent(ctx context.Context, s *bed.Settings, dir, home string) error {
	var image bytes.Buffer
	if err := png.Encode(&image, imagepkg.NewGray(imagepkg.Rect(0, 0, 256, 256))); err != nil {
		return err
	}
	src := rand.NewChaCha8([32]byte{2})
	tiles := packtest.Pyramid(0, packZoom, nil, func(tile.Coord) []byte {
		p := make([]byte, packTile)
		_, _ = src.Read(p[copy(p, image.Bytes()):]) // never fails
		return p
	})
	packs := filepath.Join(home, "packs")
	if err := bed.Unlimited(home); err != nil {
		return err
	}
	if err := os.MkdirAll(packs, 0o755); err != nil {
		return err
	}
	for c, p := range tiles {
		at := filepath.Join(dir, strconv.Itoa(int(c.Z)), strconv.Itoa(int(c.X)))
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		name := filepath.Join(at, strconv.Itoa(int(c.Y))+".png")
		if err := os.WriteFile(name, p, 0o644); err != nil { //nolint:gosec // nginx reads them
			return err
		}
	}
	archive := packtest.PMTiles(tiles, packtest.Options{Type: tile.PNG, Leaf: 256, Gzip: true})
	file := filepath.Join(s.Dir, "file.pmtiles") // what lies in a home is not added
	for _, name := range []string{file, filepath.Join(packs, "file.pmtiles")} {
		if err := os.WriteFile(name, archive, 0o644); err != nil { //nolint:gosec // go-pmtiles reads it
			return err
		}
	}
	if err := packtest.WriteMBTiles(filepath.Join(packs, "database.mbtiles"), tiles); err != nil {
		return err
	}
	key, err := s.Run(ctx, home, "add", "-q", file)
	if err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(home, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(config, "[edge.packs]\nfile.file = \"file.pmtiles\"\ndatabase.file = \"database.mbtiles\"\n"+
		"address.key = %q\n", strings.TrimSpace(key.Out))
	if closed := config.Close(); err == nil {
		err = closed
	}
	return err
}

// tileScript writes what makes wrk ask for random tiles below the path of its URL.
func tileScript(dir string) (string, error) {
	name := filepath.Join(dir, "tiles.lua")
	return name, os.WriteFile(name, fmt.Appendf(nil, `
local base = ""
function init(args)
	math.randomseed(tonumber(tostring({}):sub(8)) or 1)
	base = wrk.path:gsub("/$", "")
end
function request()
	return wrk.format(nil, string.format("%%s/%d/%%d/%%d.png", base, math.random(0, %[2]d), math.random(0, %[2]d)))
end
`, packZoom, 1<<packZoom-1), 0o600)
}

// startGoPMTiles serves the packs of a directory with go-pmtiles, nil where there is none.
func startGoPMTiles(ctx context.Context, dir string) (*measure.Process, error) {
	binary, err := filepath.Abs("../bin/tools/go-pmtiles")
	if err != nil {
		return nil, err
	}
	if !bed.Has(binary) {
		fmt.Println("tiles beside go-pmtiles: not measured, as they need it (make bin/tools/go-pmtiles)")
		return nil, nil
	}
	addr, err := measure.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return measure.Serve(ctx, addr, binary, "serve", dir, "--port", port, "--interface", "127.0.0.1")
}
