package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"allium/cmd/allium/adding"
	"allium/cmd/allium/cli"
	"allium/gateway/api"
)

// TestShareKnown: share does not read a file again that an earlier add or share has read.
func TestShareKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, file := filepath.Join(dir, "home"), filepath.Join(dir, "file")
	n, _ := startJSON(t, exec.CommandContext(t.Context(), "allium", "--home", home, "--json", "run",
		"--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	defer n.stop(t)
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a := &cli.App{Home: home, Quiet: true}
	c, err := a.Node()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for { // the cache does not believe the times of a file until they are two seconds old
		added, err := adding.AddPath(ctx, a, c, file, api.AddOptions{}, func(*api.AddNotes) {})
		if err != nil {
			t.Fatal(err)
		}
		if added.Hashed == 0 && added.Reused == 1 {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}
