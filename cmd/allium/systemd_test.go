package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServiceManager runs a node below a socket such as systemd's: it is told that the node is ready, alive
// again and again, reads its files again at SIGHUP, and drains at SIGTERM.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "sd") // that of the test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const patience = 2 * time.Minute
	// await returns the next message that begins with a line.
	await := func(line string) string {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		for b := make([]byte, 4096); ; {
			n, err := conn.Read(b)
			if err != nil {
				t.Fatalf("no message begins with %s: %v", line, err)
			}
			if m := string(b[:n]); strings.HasPrefix(m, line+"\n") {
				return m
			}
		}
	}

	home := filepath.Join(t.TempDir(), "home")
	cmd := exec.Command("allium", "--home", home, "run", "--profile", "testnet")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=200000")
	awaitReady(t, cmd)
	if m := await("READY=1"); !strings.Contains(m, "\nSTATUS=ready") {
		t.Errorf("the node says %q", m)
	}
	for range 3 {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		b := make([]byte, 4096)
		if n, err := conn.Read(b); err != nil || !strings.HasSuffix(string(b[:n]), "\nWATCHDOG=1") {
			t.Fatalf("%q, %v is no sign of life", b[:n], err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if m := await("RELOADING=1"); !strings.Contains(m, "\nMONOTONIC_USEC=") {
		t.Errorf("the node says %q", m)
	}
	await("READY=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}
}
