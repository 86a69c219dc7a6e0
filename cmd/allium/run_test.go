package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/gateway/client"
)

// TestRunJSON: with --json what a node prints is one line, once it is ready,
// that says what `id --json` says.
func TestRunJSON(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "allium", "--home", filepath.Join(t.TempDir(), "home"), "--json", "run",
		"--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said api.ID
	read := json.NewDecoder(stdout)
	if err := read.Decode(&said); err != nil || said.ID == "" || len(said.Addrs) == 0 || said.Gateway == "" ||
		said.Admin == "" {
		t.Errorf("it said %+v, %v", said, err)
	}
	c, err := client.New(said.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if id, err := c.ID(t.Context()); err != nil || id.ID != said.ID || id.Gateway != said.Gateway {
		t.Errorf("the node is %+v, %v, and said %+v", id, err, said)
	}
	_ = stdin.Close()
	if rest, err := io.ReadAll(io.MultiReader(read.Buffered(), stdout)); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("after that it said %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v: %s", err, errs.String())
	}
}
