package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/gateway/api/client"
)

// started is a node that was started with --json. It ends when its standard input does.
type started struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
	said   *json.Decoder // what it says on standard output
	errs   bytes.Buffer  // standard error
}

// startJSON starts a node that ends with its standard input, and returns what it says when it is ready.
func startJSON(t *testing.T, cmd *exec.Cmd) (*started, api.ID) {
	t.Helper()
	s := &started{cmd: cmd}
	cmd.Stderr = &s.errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	if s.stdout, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.said = json.NewDecoder(s.stdout)
	var id api.ID
	if err := s.said.Decode(&id); err != nil {
		_ = stdin.Close()
		t.Fatalf("it said %v; %v: %s", err, cmd.Wait(), s.errs.String())
	}
	return s, id
}

// stop ends the node.
func (s *started) stop(t *testing.T) {
	t.Helper()
	_ = s.stdin.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v: %s", err, s.errs.String())
	}
}

// TestRunJSON: with --json what a node prints is one line, once it is ready,
// that says what `id --json` says.
func TestRunJSON(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "allium", "--home", filepath.Join(t.TempDir(), "home"), "--json", "run",
		"--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	n, said := startJSON(t, cmd)
	if said.ID == "" || len(said.Addrs) == 0 || said.Gateway == "" || said.Admin == "" {
		t.Errorf("it said %+v", said)
	}
	c, err := client.New(said.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if id, err := c.ID(t.Context()); err != nil || id.ID != said.ID || id.Gateway != said.Gateway {
		t.Errorf("the node is %+v, %v, and said %+v", id, err, said)
	}
	_ = n.stdin.Close()
	if rest, err := io.ReadAll(io.MultiReader(n.said.Buffered(), n.stdout)); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("after that it said %q, %v", rest, err)
	}
	n.stop(t)
}
