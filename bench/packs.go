package main

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
	"time"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
)

// The pack that is measured: tiles of packTile bytes at the zooms from 0 to packZoom. wrk asks for those of packZoom.
const (
	packTile = 20 << 10
	packZoom = 5
)

// benchPacks measures tiles under wrk: of a mounted file, a database and an address, beside nginx, which serves the
// same tiles as files, and go-pmtiles, which serves the same pack. The tiles of one pack fit the node's cache and those
// of all three do not, so each is warmed before it is measured.
func benchPacks(ctx context.Context, s *settings) ([]row, error) {
	nginx, err := nginxPath()
	if _, missing := exec.LookPath("wrk"); err != nil || missing != nil {
		fmt.Println("tiles under wrk: not measured, as they need the programs wrk and nginx")
		return nil, nil
	}
	dir, home := filepath.Join(s.dir, "tiles"), filepath.Join(s.dir, "packshome")
	if err := packContent(ctx, s, dir, home); err != nil {
		return nil, err
	}
	node, err := startProcess(ctx, s.allium, "--home", home, "--log-level", "error", "run", "--profile", "testnet",
		"--listen", onTCP)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = node.stop() }()
	web, err := startNginx(ctx, nginx, dir, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = web.stop() }()
	theirs, err := startGoPMTiles(ctx, filepath.Join(home, "packs"))
	if err != nil {
		return nil, err
	}
	if theirs != nil {
		defer func() { _, _ = theirs.stop() }()
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	bare, err := startProcess(ctx, self, "reference-tile", node.gate+"/edge/packs/file/0/0/0.png")
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = bare.stop() }()
	script, err := tileScript(s.dir)
	if err != nil {
		return nil, err
	}
	pack := func(name string) string { return node.gate + "/edge/packs/" + name }
	file := row{what: "tiles of a PMTiles file ÷ nginx", unit: "×", target: "≥ 0.9"}
	tail := row{what: "tiles of a PMTiles file: p99 ÷ nginx", unit: "×", target: "≤ 1.5"}
	cpu := row{what: "tiles of a PMTiles file: CPU", unit: "µs/request"}
	rate := row{what: "tiles of a PMTiles file: requests", unit: "/s"}
	floor := row{what: "tiles of a PMTiles file ÷ a bare handler", unit: "×", target: "≥ 0.9"}
	floorCPU := row{what: "a tile of a bare handler: CPU", unit: "µs/request"}
	floorTail := row{what: "tiles of a PMTiles file: p99 ÷ a bare handler", unit: "×"}
	base := row{what: "tiles of nginx: requests", unit: "/s"}
	database := row{what: "tiles of an MBTiles file ÷ nginx", unit: "×", target: "≥ 0.4"}
	address := row{what: "tiles of an address ÷ PMTiles file", unit: "×", target: "≥ 0.6"}
	other := row{what: "tiles of a PMTiles file ÷ go-pmtiles", unit: "×", target: "≥ 3"}
	for range s.rounds {
		var got [5]loaded
		for j, from := range []struct {
			p   *process
			url string
		}{{node, pack("file")}, {web, web.gate}, {node, pack("database")}, {node, pack("address")}, {bare, bare.gate}} {
			for range 2 { // the first warms
				if got[j], err = wrk(ctx, from.p, from.url, script); err != nil {
					return nil, err
				}
			}
		}
		var go1 loaded
		if theirs != nil {
			if go1, err = wrk(ctx, theirs, theirs.gate+"/file", script); err != nil {
				return nil, err
			}
		}
		file.values = append(file.values, got[0].rate/got[1].rate)
		tail.values = append(tail.values, got[0].p99.Seconds()/got[1].p99.Seconds())
		cpu.values = append(cpu.values, got[0].cpu.Seconds()*1e6)
		rate.values, base.values = append(rate.values, got[0].rate), append(base.values, got[1].rate)
		database.values = append(database.values, got[2].rate/got[1].rate)
		address.values = append(address.values, got[3].rate/got[0].rate)
		floor.values = append(floor.values, got[0].rate/got[4].rate)
		floorCPU.values = append(floorCPU.values, got[4].cpu.Seconds()*1e6)
		floorTail.values = append(floorTail.values, got[0].p99.Seconds()/got[4].p99.Seconds())
		if theirs != nil {
			other.values = append(other.values, got[0].rate/go1.rate)
		}
	}
	rows := []row{file, tail, cpu, rate, floor, floorCPU, floorTail, base, database, address}
	if theirs != nil {
		rows = append(rows, other)
	}
	return rows, nil
}

// replay returns a handler that answers as url does now: with the same header and the same bytes, from memory. It is
// what net/http can do with a tile.
func replay(ctx context.Context, url string) (http.Handler, error) {
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

// benchPackOfPeer measures the first byte of a tile of a pack that one peer has, with all directories above it, beside
// that of an object of that peer.
func benchPackOfPeer(ctx context.Context, s *settings) ([]row, error) {
	has, asks := filepath.Join(s.dir, "packhas"), filepath.Join(s.dir, "packasks")
	for _, home := range []string{has, asks} {
		if err := s.makeHome(ctx, home); err != nil {
			return nil, err
		}
	}
	holder, err := s.startNodeAs(ctx, asMapper, onTCP, has)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = holder.stop() }()
	asker, err := s.startNodeAs(ctx, asMapper, onTCP, asks, holder.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = asker.stop() }()
	file := filepath.Join(s.dir, "deep.pmtiles")
	if err := os.WriteFile(file, packtest.Deep(), 0o600); err != nil {
		return nil, err
	}
	key, _, err := s.add(ctx, has, file)
	if err != nil {
		return nil, err
	}
	if _, err := run(ctx, s.allium, "--home", asks, "pack", "mount", "deep", key, "--temporary"); err != nil {
		return nil, err
	}
	first := row{what: "first byte: a tile that a peer has", unit: "ms"}
	object := row{what: "first byte: an object that this peer has", unit: "ms"}
	for _, id := range packtest.DeepCold() {
		const size = 64 << 10
		one, err := s.publish(ctx, has, size)
		if err != nil {
			return nil, err
		}
		took, err := firstByte(ctx, asker.gate+"/o/"+one, size)
		if err != nil {
			return nil, err
		}
		object.values = append(object.values, ms(took))
		tile := fmt.Sprintf("%s/edge/packs/deep/%s.png", asker.gate, pmtiles.CoordOf(id))
		if took, err = firstByte(ctx, tile, packtest.DeepTile); err != nil {
			return nil, err
		}
		first.values = append(first.values, ms(took))
	}
	return []row{first, object, {what: "first byte: that tile ÷ that object", unit: "×", target: "≤ 3",
		values: pairs(first.values, object.values)}}, nil
}

// asMapper are the flags of the nodes of benchPackOfPeer.
var asMapper = []string{"--profile", "testnet", "--gateway", "127.0.0.1:0"}

// packContent writes the tiles as files, and mounts them at a home as file, database and address.
func packContent(ctx context.Context, s *settings, dir, home string) error {
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
	if err := unlimited(home); err != nil {
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
	file := filepath.Join(s.dir, "file.pmtiles") // what lies in a home is not added
	for _, name := range []string{file, filepath.Join(packs, "file.pmtiles")} {
		if err := os.WriteFile(name, archive, 0o644); err != nil { //nolint:gosec // go-pmtiles reads it
			return err
		}
	}
	if err := packtest.WriteMBTiles(filepath.Join(packs, "database.mbtiles"), tiles); err != nil {
		return err
	}
	key, err := run(ctx, s.allium, "--home", home, "add", "-q", file)
	if err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(home, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(config, "[edge.packs]\nfile.file = \"file.pmtiles\"\ndatabase.file = \"database.mbtiles\"\n"+
		"address.key = %q\n", strings.TrimSpace(key.out))
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
func startGoPMTiles(ctx context.Context, dir string) (*process, error) {
	binary, err := filepath.Abs("../bin/tools/go-pmtiles")
	if err != nil {
		return nil, err
	}
	if !has(binary) {
		fmt.Println("tiles beside go-pmtiles: not measured, as they need it (make bin/tools/go-pmtiles)")
		return nil, nil
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "serve", dir, "--port", port, "--interface", "127.0.0.1")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, gate: "http://127.0.0.1:" + port}
	for range 100 {
		if a, err := http.Get(p.gate + "/file/0/0/0.png"); err == nil { //nolint:noctx // it ends at once
			return p, a.Body.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	_, err = p.stop()
	return nil, fmt.Errorf("go-pmtiles does not answer: %w", err)
}
