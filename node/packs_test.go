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
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// TestTileOfAPeer: a tile of a pack that only a peer has takes a request for each directory above it and one for
// itself. What arrives is the groups of those and their proofs.
func TestTileOfAPeer(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, joining(a))
	file := filepath.Join(t.TempDir(), "deep.pmtiles")
	write(t, file, packtest.Deep())
	root := add(t, a, file)[0].Root.String()
	awaitProvider(t, b, root)
	sent := func() (requests, size int64) {
		return metric(t, a, `object_request_latency_seconds_count{op="get",side="server"}`),
			metric(t, a, `object_bytes_total{dir="out"}`)
	}
	if _, err := b.api.MountPack(t.Context(), api.MountRequest{Name: "deep", Key: root}, nil); err != nil {
		t.Fatal(err)
	}
	if n, _ := sent(); n > 2+16*4 {
		t.Errorf("the mount took %d requests", n)
	}
	ids := packtest.DeepCold()
	requests, size := sent()
	for _, id := range ids {
		c := pmtiles.CoordOf(id)
		f := fetch(t, fmt.Sprintf("%s/edge/packs/deep/%s.png", b.ID().Gateway, c))
		if f.code != http.StatusOK || !bytes.HasPrefix(f.body, packtest.Content(tile.PNG, "")) {
			t.Fatalf("tile %s: %d %s", c, f.code, f.body)
		}
	}
	want := int64(len(ids)) * 4 // three directories and the tile
	testkit.Eventually(t, "the requests are counted", func() bool {
		now, _ := sent() // a request is counted when its answer has ended
		return now-requests >= want
	})
	now, sizeNow := sent()
	n, size := now-requests, sizeNow-size
	if n > want+1 { // one may be of the mount
		t.Errorf("%d tiles took %d requests, want %d", len(ids), n, want)
	}
	// A part of two groups takes one request. A proof of 9 levels has 576 bytes.
	if groups := size / b3.GroupSize; groups < want || groups > 2*n || size-groups*b3.GroupSize > 1024*n {
		t.Errorf("%d requests took %d bytes", n, size)
	}
	requests = now
	if f := fetch(t, b.ID().Gateway+"/edge/packs/deep/"+pmtiles.CoordOf(8).String()+".png"); f.code != http.StatusOK {
		t.Errorf("again: %d", f.code)
	}
	if after, _ := sent(); after != requests {
		t.Errorf("a tile that is here took %d requests", after-requests)
	}
}
