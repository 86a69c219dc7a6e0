package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/testkit"
)

// TestLAN: two nodes without configuration, in network namespaces that a bridge joins, find each other by
// multicast DNS and exchange a file. No packet leaves the bridge.
func TestLAN(t *testing.T) {
	if testing.Short() {
		t.Skip("makes network namespaces")
	}
	spaces := joinedNamespaces(t)
	dir := t.TempDir()
	var nodes []*client.Client
	var ids []string
	begun := time.Now()
	for i, space := range spaces {
		home := filepath.Join(dir, fmt.Sprint("home", i))
		cmd := exec.Command("ip", "netns", "exec", space, "allium", "--home", home, "--log-level", "error", "run")
		cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "ALLIUM_LISTEN__PORT_MAP=false")
		awaitReady(t, cmd)
		t.Cleanup(func() { _ = cmd.Wait() }) // after awaitReady's Kill, and before the namespace is removed
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		socket, err := api.SocketPath(home)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		id, err := c.ID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		nodes, ids = append(nodes, c), append(ids, id.ID)
	}
	testkit.Eventually(t, "a connection", func() bool {
		peers, err := nodes[0].Peers(t.Context())
		return err == nil && slices.ContainsFunc(peers, func(p api.Peer) bool { return p.ID == ids[1] })
	})
	t.Logf("connected %v after the first was started", time.Since(begun).Round(time.Millisecond))

	file, copied := filepath.Join(dir, "note.txt"), filepath.Join(dir, "copy.txt")
	if err := os.WriteFile(file, []byte("by the sea"), 0o600); err != nil {
		t.Fatal(err)
	}
	added, err := exec.Command("allium", "--home", filepath.Join(dir, "home0"), "add", "-q", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("allium", "--home", filepath.Join(dir, "home1"), "get", strings.TrimSpace(string(added)),
		"-o", copied).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(copied); err != nil || string(got) != "by the sea" {
		t.Errorf("the copy has %q, %v", got, err)
	}
}

// joinedNamespaces makes two network namespaces whose only interface beside loopback leads to a bridge in a
// third one. It skips the test where that is impossible.
func joinedNamespaces(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		testkit.Missing(t, "network namespaces need the program ip (package iproute2)")
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	name := fmt.Sprintf("allium%d-", os.Getpid())
	newSpace := func(space string) string {
		t.Helper()
		if out, err := exec.Command("ip", "netns", "add", space).CombinedOutput(); err != nil {
			t.Skipf("this machine makes no network namespaces here (root needed): %v: %s", err, out)
		}
		t.Cleanup(func() { ip("netns", "del", space) })
		ip("-n", space, "link", "set", "lo", "up")
		return space
	}
	bridge := newSpace(name + "b")
	ip("-n", bridge, "link", "add", "br0", "type", "bridge")
	ip("-n", bridge, "link", "set", "br0", "up")
	var spaces []string
	for i := range 2 {
		space, end := newSpace(fmt.Sprint(name, i)), fmt.Sprint("end", i)
		ip("-n", space, "link", "add", "lan0", "type", "veth", "peer", "name", end, "netns", bridge)
		ip("-n", bridge, "link", "set", end, "master", "br0", "up")
		ip("-n", space, "addr", "add", fmt.Sprintf("192.168.77.%d/24", i+1), "dev", "lan0")
		ip("-n", space, "link", "set", "lan0", "up")
		spaces = append(spaces, space)
	}
	return spaces
}
