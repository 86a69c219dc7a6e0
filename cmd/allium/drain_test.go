package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"allium/internal/testkit"
)

// TestTermInMidTransfer sends SIGTERM to a node while two clients read a large
// object: the one that keeps reading gets all of it, the one that stands still
// is cut at the drain deadline and can tell, new requests hear draining, and
// the process ends with 0.
func TestTermInMidTransfer(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	initHome(t, home)
	want := bytes.Repeat([]byte("allium onion garlic "), 4<<20/20*4)
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := exec.Command("allium", "--home", home, "add", "-q", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	node, gateway := startNode(t, home)
	object := gateway + "/o/" + strings.TrimSpace(string(root))

	reader, still := openHalf(t, object), openHalf(t, object)
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitDraining(t, gateway)
	var reading sync.WaitGroup
	reading.Go(func() {
		if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, want[half:]) {
			t.Errorf("who kept reading got %d of %d bytes, %v", half+len(got), len(want), err)
		}
	})
	hearsDraining(t, gateway)
	reading.Wait()
	if err := node.Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}
	if got, err := io.ReadAll(still); err == nil || half+len(got) >= len(want) {
		t.Errorf("who stood still has %d of %d bytes and error %v", half+len(got), len(want), err)
	} else if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the cut looks like %v", err)
	}
	out, err := exec.Command("allium", "--home", home, "verify", "--all").CombinedOutput()
	if err != nil {
		t.Errorf("the store afterwards: %v: %s", err, out)
	}
}

// half is what each client reads before the signal: far less than the object,
// so that the rest does not fit the buffers of the sockets.
const half = 256 << 10

func openHalf(t *testing.T, url string) io.Reader {
	t.Helper()
	tr := &http.Transport{} // a connection of its own
	t.Cleanup(tr.CloseIdleConnections)
	resp, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if _, err := io.CopyN(io.Discard, resp.Body, half); err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

// awaitDraining asks until the node says that it drains.
func awaitDraining(t *testing.T, gateway string) {
	t.Helper()
	testkit.Eventually(t, "the drain", func() bool {
		resp, err := http.Get(gateway + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
}

// hearsDraining: a node that drains says that it lives, and takes nothing new.
func hearsDraining(t *testing.T, gateway string) {
	t.Helper()
	resp, err := http.Get(gateway + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("healthz is %s while draining", resp.Status)
	}
	// Readiness turns false a moment before the listeners stop admitting.
	testkit.Eventually(t, "a new request that hears of the drain", func() bool {
		resp, err := http.Get(gateway + "/o/b3:" + strings.Repeat("0", 64))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("X-Reason") == "draining"
	})
}

// initHome makes a home directory.
func initHome(t *testing.T, home string) {
	t.Helper()
	if out, err := exec.Command("allium", "--home", home, "init").CombinedOutput(); err != nil {
		t.Fatalf("init: %v: %s", err, out)
	}
}

// startNode starts `allium run` and returns it with its gateway's address.
func startNode(t *testing.T, home string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command("allium", "--home", home, "run", "--profile", "testnet")
	cmd.Env = append(os.Environ(), "ALLIUM_NODE__DRAIN_DEADLINE=5s") // the longest there is
	return cmd, awaitReady(t, cmd)
}

// awaitReady starts a node and returns its gateway's address.
func awaitReady(t *testing.T, cmd *exec.Cmd) (gateway string) {
	t.Helper()
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for sc := bufio.NewScanner(out); sc.Scan() && !strings.HasPrefix(sc.Text(), "ready"); {
		if g, ok := strings.CutPrefix(sc.Text(), "gateway on "); ok {
			gateway = g
		}
	}
	if gateway == "" {
		t.Fatal("the node did not start")
	}
	return gateway
}
