package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/internal/testkit"
)

// fetch runs curl in a namespace.
func (n *netns) fetch(name string, args ...string) []byte {
	n.Helper()
	out, err := exec.Command("ip", append([]string{"netns", "exec", n.ns(name), "curl", "-s"}, args...)...).Output()
	if err != nil {
		n.Fatalf("curl %q: %v", args, err)
	}
	return out
}

// TestLinkOnRelay: what a node behind a router shares is opened by a browser elsewhere, on the gateway of a relay. A
// seed relays too, and shows no links: it fetches nothing.
func TestLinkOnRelay(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		testkit.Missing(t, "curl is not installed")
	}
	n := newNetns(t)
	n.more = []string{"ALLIUM_GATEWAY__LISTEN=20.0.0.1:8080"}
	n.seed("seed", "20.0.0.1/8", "20.0.0.254")
	n.more = []string{"ALLIUM_GATEWAY__LISTEN=:8080"}
	n.host("relay", "net", "21.0.0.1/8", "21.0.0.254")
	relay := n.node("relay", "gateway")[0]
	n.seeds = append(n.seeds, relay)
	n.behind("a", "30.0.0.1", "192.168.1", "", "")
	n.more = []string{"ALLIUM_LISTEN__RELAYS=" + relay}
	n.node("a", "desktop")
	n.host("b", "net", "31.0.0.1/8", "31.0.0.254")
	testkit.Eventually(t, "the relay", func() bool {
		var r api.Reach
		n.decode(&r, "--home", n.home("a"), "--json", "doctor", "reach")
		for _, a := range r.Addrs {
			if strings.HasPrefix(a.Addr, relay) {
				return true
			}
		}
		return false
	})
	content := bytes.Repeat([]byte("content"), 3<<20/7)
	file := filepath.Join(n.dir, "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	share := []string{"--home", n.home("a"), "share", file, "--web", "--once", "--on"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "allium", append(share, n.seeds[0])...).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("shows no links of peers")) {
		t.Errorf("a seed: %v, %s", err, out)
	}
	cmd := exec.Command("allium", append(share, "relay")...)
	link := firstLine(t, cmd)
	if !strings.HasPrefix(link, "http://21.0.0.1:8080/s/") {
		t.Fatalf("the link is %q", link)
	}
	if page := n.fetch("b", link); !bytes.Contains(page, []byte("for 1 more download")) {
		t.Errorf("%s", page)
	}
	if got := n.fetch("b", link+"file"); !bytes.Equal(got, content) {
		t.Errorf("%d bytes arrived, %.100q", len(got), got)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("share ended with %v", err)
	}
	if code := n.fetch("b", "-o", os.DevNull, "-w", "%{http_code}", link+"file"); string(code) != "410" {
		t.Errorf("after the end: %s", code)
	}
}

// firstLine starts a command and returns its first line.
func firstLine(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	lines.Scan()
	return lines.Text()
}
