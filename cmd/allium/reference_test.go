package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/reference"
)

// TestReferenceIsUpToDate compares docs/reference with what the code says.
func TestReferenceIsUpToDate(t *testing.T) {
	pages, err := reference.Pages(t.Context(), rootCommand(cli.New()))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "reference")
	for name, page := range pages {
		if old, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(old, page) {
			t.Errorf("docs/reference/%s differs from the code (%v); run `make docs`", name, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages["locks.md"] = nil // tools/lockcheck writes it
	for _, f := range files {
		if _, ok := pages[f.Name()]; !ok {
			t.Errorf("docs/reference/%s is not generated any more", f.Name())
		}
	}
}
