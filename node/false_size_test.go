package node_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// TestGetRefusesAFalseSize: the size of an entry is its author's claim.
func TestGetRefusesAFalseSize(t *testing.T) {
	noLeaks(t)
	off, err := node.OpenOffline(t.Context(), t.TempDir(), config.Default(p2p.Testnet))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := off.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := func(p []byte) (root b3.Root) {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, p, 0o600); err != nil {
			t.Fatal(err)
		}
		for added, err := range off.AddItems(t.Context(), files.DiskItems(name), api.AddOptions{}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			root = added.Root
		}
		return root
	}
	for _, size := range []int64{4, 6} {
		b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return store(p), nil })
		if err := b.Add(t.Context(), manifest.Entry{Name: "a", Root: store([]byte("hello")), Size: size}); err != nil {
			t.Fatal(err)
		}
		root, _, err := b.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := off.Get(t.Context(), root.String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, s.Body)
		if status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), "a: the directory says") {
			t.Errorf("an entry that says %d bytes of 5: %v", size, err)
		}
		if err := s.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
