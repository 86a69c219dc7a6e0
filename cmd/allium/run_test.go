package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	homedir "allium/node/home"
)

// started is a node that a test reads and stops. It ends when its standard input does.
type started struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.Reader
	said   *json.Decoder // what it says on standard output with --json
	errs   bytes.Buffer  // standard error
}

// startJSON starts a node that ends with its standard input, and returns what it says when it is ready.
func startJSON(t *testing.T, cmd *exec.Cmd) (*started, api.ID) {
	t.Helper()
	s := startPiped(t, cmd)
	s.said = json.NewDecoder(s.stdout)
	var id api.ID
	if err := s.said.Decode(&id); err != nil {
		_ = s.stdin.Close()
		t.Fatalf("it said %v; %v: %s", err, cmd.Wait(), s.errs.String())
	}
	return s, id
}

// startPiped starts a node that ends with its standard input.
func startPiped(t *testing.T, cmd *exec.Cmd) *started {
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
	return s
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
	if rest, err := io.ReadAll(io.MultiReader(n.said.Buffered(), n.stdout)); err != nil ||
		len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("after that it said %q, %v", rest, err)
	}
	n.stop(t)
}

// TestCommandBesideStart: a command that finds the home of a node that is starting waits for its socket.
func TestCommandBesideStart(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	initHome(t, home)
	cmd := exec.CommandContext(t.Context(), "allium", "--home", home, "run", "--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "", "--admin", "")
	n := startSpoken(t, cmd)
	for !homedir.InUse(home) {
		time.Sleep(time.Millisecond)
	}
	// Without a node it fails.
	out, err := exec.CommandContext(t.Context(), "allium", "--home", home, "--json", "peers").CombinedOutput()
	if err != nil {
		t.Errorf("peers: %v: %s", err, out)
	}
	n.line(t, "ready")
	n.stop(t)
}

// spoken is a node whose lines are read.
type spoken struct {
	*started
	lines *bufio.Scanner
}

// startSpoken starts a node that ends with its standard input.
func startSpoken(t *testing.T, cmd *exec.Cmd) *spoken {
	t.Helper()
	s := startPiped(t, cmd)
	return &spoken{s, bufio.NewScanner(s.stdout)}
}

// line waits for a line that begins with prefix, and returns the rest of it.
func (s *spoken) line(t *testing.T, prefix string) string {
	t.Helper()
	for s.lines.Scan() {
		if rest, ok := strings.CutPrefix(s.lines.Text(), prefix); ok {
			return rest
		}
	}
	t.Fatalf("no line begins with %q: %v", prefix, s.lines.Err())
	return ""
}

// TestReadyExcept: a node whose only seed is away says which gate is shut and why, as /readyz does, and that it is
// ready once the seed is there.
func TestReadyExcept(t *testing.T) {
	t.Parallel()
	homes := [2]string{filepath.Join(t.TempDir(), "seed"), filepath.Join(t.TempDir(), "home")}
	start := func(home, listen string, more ...string) *spoken {
		t.Helper()
		return startSpoken(t, exec.CommandContext(t.Context(), "allium", append([]string{"--home", home, "run",
			"--profile", "testnet", "--end-with-stdin", "--listen", listen, "--gateway", "",
			"--admin", "127.0.0.1:0"}, more...)...))
	}
	seed := start(homes[0], "/ip4/127.0.0.77/tcp/0") // its port stays free there, whatever other tests open
	addr := seed.line(t, "listening on ")
	seed.line(t, "ready")
	seed.stop(t)

	node := start(homes[1], "/ip4/127.0.0.1/tcp/0", "--bootstrap", addr)
	defer node.stop(t)
	admin := node.line(t, "admin on ")
	why := node.line(t, "ready")
	if !strings.HasPrefix(why, ", except: bootstrap (") {
		t.Errorf("it said ready%s", why)
	}
	resp, err := http.Get(admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %s", resp.Status)
	}
	listen, _, _ := strings.Cut(addr, "/p2p/")
	seed = start(homes[0], listen)
	defer seed.stop(t)
	seed.line(t, "ready")
	if rest := node.line(t, "ready"); rest != "" {
		t.Errorf("then it said ready%s", rest)
	}
}
