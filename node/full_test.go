package node_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"allium/node/config"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// TestFullNodeReads reads a large file of a peer through a node whose store is full of pinned objects: whole, in parts
// and as an encoding. The store keeps its bound, and a fetch
// into it is refused.
func TestFullNodeReads(t *testing.T) {
	noLeaks(t)
	a := start(t, nil)
	b := start(t, func(c *config.Config) { c.Store.MaxBytes = 1 << 20; joining(a)(c) })
	dir, pinned := filepath.Join(t.TempDir(), "tree"), filepath.Join(t.TempDir(), "pinned")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 3<<20+77)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	for path, p := range map[string][]byte{filepath.Join(dir, "large"): want, pinned: want[:900<<10]} {
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, file := add(t, a, dir)[0].Root.String(), add(t, a, filepath.Join(dir, "large"))[0].Root
	add(t, b, pinned)
	awaitProvider(t, b, tree)
	for _, tc := range []struct {
		path, ranges string
		start, end   int
	}{
		{"/b3/" + tree + "/large", "", 0, len(want)},
		{"/o/" + file.String(), "", 0, len(want)},
		{"/o/" + file.String(), "bytes=500000-1500099", 500_000, 1_500_100},
		{"/o/" + file.String(), "bytes=-10", len(want) - 10, len(want)},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.ID().Gateway+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.ranges != "" {
			req.Header.Set("Range", tc.ranges)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode/100 != 2 || !bytes.Equal(got, want[tc.start:tc.end]) {
			t.Errorf("%s %q: %s, %d bytes, %v", tc.path, tc.ranges, resp.Status, len(got), err)
		}
	}
	for query, r := range map[string]b3.Range{
		"": {End: -1}, "&range=200000-1999999": {Start: 200_000, End: 2_000_000},
	} {
		resp := get(t, b.ID().Gateway+"/o/"+file.String()+"?format=bao"+query)
		got, err := io.ReadAll(bao.NewDecoder(file, r, resp.Body))
		resp.Body.Close()
		end := r.End
		if end < 0 {
			end = int64(len(want))
		}
		if err != nil || !bytes.Equal(got, want[r.Start:end]) {
			t.Errorf("encoding %v: %s, %d bytes, %v", r, resp.Status, len(got), err)
		}
	}
	if held := metric(t, b, "store_bytes") + metric(t, b, "store_partial_bytes"); held > 1<<20 {
		t.Errorf("the store holds %d bytes", held)
	}
	if _, err := b.api.Fetch(t.Context(), file.String(), nil); status.Of(err) != status.NoSpace {
		t.Errorf("fetch: %v", err)
	}
	if n := metric(t, b, "resolver_transfers"); n > 2 { // a range may linger
		t.Errorf("%d transfers are left", n)
	}
}
