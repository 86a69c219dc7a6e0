package node_test

import (
	"io"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/p2p"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// TestPanicEndsTheAddAlone lets each goroutine of the pipeline meet a panic:
// the add fails as internal, and the store goes on.
func TestPanicEndsTheAddAlone(t *testing.T) {
	noLeaks(t)
	off, err := node.OpenOffline(t.Context(), t.TempDir(), config.Default(p2p.Testnet))
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	for what, items := range map[string]files.Items{
		"the walk": func(func(files.Item, error) bool) { panic("walk") },
		"a worker": func(yield func(files.Item, error) bool) {
			yield(files.Item{Path: "x", Kind: manifest.File, Open: func() (io.ReadCloser, error) { panic("open") }},
				nil)
		},
	} {
		for _, err := range off.AddItems(t.Context(), items, api.AddOptions{}, nil) {
			if status.Of(err) != status.Internal || !strings.Contains(err.Error(), "panic") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for _, err := range off.AddItems(t.Context(), files.DiskItems(newTree(t, 1)), api.AddOptions{}, nil) {
		if err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}
