package node_test

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/gateway/pack/packtest"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
	"allium/protocols/b3"
)

// spread is more than a group: what lies so far apart takes a request each.
const spread = b3.GroupSize + 4096

// deepPack returns a pack of 256 tiles of 8 KiB below three levels of leaf directories. Each tile and each
// directory lies in a group of its own. It has more directories of each level than a mount looks at.
func deepPack() []byte {
	image := append(packtest.Content(tile.PNG, ""), make([]byte, 8<<10-8)...)
	var entries []packtest.Entry
	var tiles, leaves []byte
	place := func(section *[]byte, p []byte) (offset uint64) {
		offset = uint64(len(*section))
		*section = append(append(*section, p...), make([]byte, spread-len(p))...)
		return offset
	}
	for i := range uint64(256) {
		entries = append(entries, packtest.Entry{ID: i, Run: 1, Length: uint64(len(image)), Offset: place(&tiles, image)})
	}
	for range pmtiles.MaxDepth {
		var parents []packtest.Entry
		for i := 0; i < len(entries); i += 2 {
			p := packtest.Directory(entries[i : i+2])
			parents = append(parents, packtest.Entry{ID: entries[i].ID, Length: uint64(len(p)), Offset: place(&leaves, p)})
		}
		entries = parents
	}
	h := packtest.Header{Magic: [8]byte([]byte("PMTiles\x03")), Clustered: true, Internal: packtest.CompressionNone,
		Compression: packtest.CompressionNone, Type: uint8(tile.PNG), Zooms: [2]uint8{0, 4}}
	return packtest.Join(h, packtest.Directory(entries), []byte("{}"), leaves, tiles, nil)
}

// TestTileOfAPeer: a tile of a pack that only a peer has takes a request for each directory above it and one for
// itself. What arrives is the groups of those and their proofs.
func TestTileOfAPeer(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, joining(a))
	file := filepath.Join(t.TempDir(), "deep.pmtiles")
	write(t, file, deepPack())
	root := add(t, a, file)[0].Root.String()
	awaitProvider(t, b, root)
	sent := func() (requests, size int64) {
		return metric(t, a, `object_request_latency_seconds_count{op="get",side="server"}`),
			metric(t, a, `object_bytes_total{dir="out"}`)
	}
	if _, err := b.api.MountPack(t.Context(), api.MountRequest{Name: "deep", Key: root}, nil); err != nil {
		t.Fatal(err)
	}
	most := int64(0)
	for i := range uint64(8) {
		c := pmtiles.CoordOf(9 + i*32)
		requests, size := sent()
		f := fetch(t, fmt.Sprintf("%s/edge/packs/deep/%s.png", b.ID().Gateway, c))
		if f.code != http.StatusOK || !bytes.HasPrefix(f.body, packtest.Content(tile.PNG, "")) {
			t.Fatalf("tile %s: %d %s", c, f.code, f.body)
		}
		after, sizeAfter := sent()
		n, size := after-requests, sizeAfter-size
		most = max(most, n)
		// A part of two groups takes one request. A proof of 9 levels has 576 bytes.
		if groups := size / b3.GroupSize; n > 4 || groups > 2*n || size-groups*b3.GroupSize > 1024*n {
			t.Errorf("tile %s took %d requests and %d bytes", c, n, size)
		}
	}
	if most < 4 {
		t.Errorf("no tile took more than %d requests: the mount has read what they need", most)
	}
	requests, _ := sent()
	if f := fetch(t, b.ID().Gateway+"/edge/packs/deep/"+pmtiles.CoordOf(9).String()+".png"); f.code != http.StatusOK {
		t.Errorf("again: %d", f.code)
	}
	if after, _ := sent(); after != requests {
		t.Errorf("a tile that is here took %d requests", after-requests)
	}
}
