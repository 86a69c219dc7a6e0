package sockets

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/status"
)

// TestPeerUID: the system says who connects to the socket, and only the node's own
// user and root may.
func TestPeerUID(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if uid, err := peerUID(s.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
		t.Errorf("uid %d, %v", uid, err)
	}
	for uid, ok := range map[int]bool{1000: true, 0: true, 1001: false, 65534: false} {
		if err := allowUID(uid, 1000); (err == nil) != ok {
			t.Errorf("user %d on the socket of user 1000: %v", uid, err)
		}
	}
}

// TestSocketInTheWay: a socket that a dead node left is replaced, everything
// else is not.
func TestSocketInTheWay(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, "api.sock")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); status.Of(err) != status.Conflict ||
		!strings.Contains(err.Error(), "another node") {
		t.Errorf("a second node: %v", err)
	}
	l.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); status.Of(err) != status.Conflict {
		t.Errorf("a file: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); status.Of(err) != status.Forbidden {
		t.Errorf("an open directory: %v", err)
	}
}
