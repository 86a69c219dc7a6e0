package main

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/internal/testkit"
)

// TestProgramsAboveTheRate: git, ostree and rclone read trees of more files than the rate allows while another client
// asks now and then. None of their requests is refused, and what they get is the whole tree.
func TestProgramsAboveTheRate(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"git", "ostree", "rclone"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Missing(t, "needs "+program+": programs that read more files than the rate allows are not tested")
		}
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for i := range 150 {
		file := filepath.Join(at("tree"), fmt.Sprintf("d%d", i%10), fmt.Sprintf("file %d", i))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "number %d", i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"RCLONE_CONFIG="+at("none"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git := func(args ...string) {
		t.Helper()
		run("git", append([]string{"-C", at("tree"), "-c", "user.name=n", "-c", "user.email=a@example.org"},
			args...)...)
	}
	git("init", "-q", "--separate-git-dir", at("git"))
	git("add", ".")
	git("commit", "-qm", "x")
	git("update-server-info")
	if err := os.Remove(filepath.Join(at("tree"), ".git")); err != nil {
		t.Fatal(err)
	}
	run("ostree", "init", "--repo="+at("ostree"), "--mode=archive")
	run("ostree", "commit", "--repo="+at("ostree"), "--branch=main", "-s", "x", at("tree"))

	home := at("home")
	initHome(t, home)
	added := map[string]string{}
	for _, name := range []string{"tree", "git", "ostree"} {
		added[name] = run("allium", "--home", home, "add", "-q", at(name))
	}
	cmd := exec.Command("allium", "--home", home, "--json", "run", "--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "ALLIUM_GATEWAY__RATE=200", "ALLIUM_GATEWAY__BURST=20")
	node, said := startJSON(t, cmd)
	defer node.stop(t)
	url := func(name string) string { return said.Gateway + "/b3/" + added[name] }
	stop, other := make(chan struct{}), sync.WaitGroup{}
	other.Go(func() { askNowAndThen(url("tree")+"/d0/file%200", stop) })
	defer other.Wait()
	defer close(stop)

	run("git", "clone", "-q", url("git"), at("got git"))
	if err := os.RemoveAll(filepath.Join(at("got git"), ".git")); err != nil {
		t.Fatal(err)
	}
	run("ostree", "init", "--repo="+at("pulled"), "--mode=bare-user-only")
	run("ostree", "remote", "add", "--repo="+at("pulled"), "--no-gpg-verify", "o", url("ostree"))
	run("ostree", "pull", "--repo="+at("pulled"), "o", "main")
	run("ostree", "checkout", "--repo="+at("pulled"), "-U", "o:main", at("got ostree"))
	run("rclone", "copy", "--http-url", url("tree")+"/", ":http:", at("got rclone"))
	want := testkit.Files(t, at("tree"))
	for _, program := range []string{"git", "ostree", "rclone"} {
		if got := testkit.Files(t, at("got "+program)); len(want) != 150 || !maps.Equal(got, want) {
			t.Errorf("%s got %d files of %d, or others", program, len(got), len(want))
		}
	}
}

// askNowAndThen asks for url from 127.0.0.2 until stop is closed, so that no other client is alone.
func askNowAndThen(url string, stop <-chan struct{}) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	defer client.CloseIdleConnections()
	for {
		if resp, err := client.Get(url); err == nil {
			resp.Body.Close()
		}
		select {
		case <-stop:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
