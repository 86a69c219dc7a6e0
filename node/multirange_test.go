package node_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"allium/node/config"
)

// TestGatewaySendsSeveralRanges sends parts of what a node has, and of what it
// has to ask a peer for.
func TestGatewaySendsSeveralRanges(t *testing.T) {
	noLeaks(t)
	four := func(c *config.Config) { c.Gateway.Content.MultiRange = 4 }
	a := start(t, four)
	b := start(t, func(c *config.Config) { four(c); joining(a)(c) })
	dir := newTree(t, 3)
	added := add(t, a, dir)[0]
	awaitProvider(t, b, added.Root.String())
	data, err := os.ReadFile(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{data[500_000:500_100], data[:10], data[len(data)-10:]}
	defer http.DefaultClient.CloseIdleConnections()
	for name, n := range map[string]*running{"here": a, "from a peer": b} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			n.ID().Gateway+"/b3/"+added.Root.String()+"/large", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Range", "bytes=500000-500099,0-9,-10")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		_, params, typeErr := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if err != nil || typeErr != nil || resp.StatusCode != http.StatusPartialContent ||
			int64(len(body)) != resp.ContentLength {
			t.Fatalf("%s: %s, %v, %d bytes (%v)", name, resp.Status, resp.Header, len(body), err)
		}
		parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
		for i, w := range want {
			p, err := parts.NextPart()
			if err != nil {
				t.Fatalf("%s: part %d: %v", name, i, err)
			}
			if got, err := io.ReadAll(p); err != nil || !bytes.Equal(got, w) {
				t.Errorf("%s: part %d, %v: %d bytes (%v)", name, i, p.Header, len(got), err)
			}
		}
	}
}
