package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// addressed are the system calls that name whom a process sends to, with an address of the internet.
var addressed = regexp.MustCompile(`(?m)^.*\b(?:connect|sendto|sendmsg|sendmmsg)\(.*sin6?_port=htons\(\d+\).*$`)

// TestOfflineAsksNobody runs a node whose edge is offline under strace: requests for files that it does not have send
// nothing to an origin or to a server of the DNS. The same node with a live edge does.
func TestOfflineAsksNobody(t *testing.T) {
	t.Parallel()
	mayTrace(t)
	config := `
[edge.sources.address]
url = "https://127.0.0.1:1/"
private = true
[edge.sources.name]
url = "https://origin.invalid/"
[edge.sources.proved]
url = "https://origin.invalid/"
manifest = "releases.example.org"
`
	for _, mode := range []string{"offline", "live"} {
		home := filepath.Join(t.TempDir(), "home")
		if err := os.Mkdir(home, 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("[names]\ndns = true\n[edge]\nmode = %q\n", mode) + config
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		trace := filepath.Join(t.TempDir(), "trace")
		cmd := exec.Command("strace", "-D", "-f", "--seccomp-bpf", "-q", "-e", "signal=none",
			"-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", trace, "allium", "--home", home, "run",
			"--profile", "testnet", "--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0",
			"--admin", "127.0.0.1:0")
		gateway := awaitReady(t, cmd)
		for _, source := range []string{"address", "name", "proved"} {
			resp, err := http.Get(gateway + "/edge/assets/" + source + "/a")
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if found := resp.StatusCode == http.StatusNotFound; mode == "offline" && !found {
				t.Errorf("%s: %s", source, resp.Status)
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the node ended with %v", err)
		}
		calls := addressed.FindAllString(traceOf(t, trace), -1)
		switch {
		case mode == "offline" && len(calls) > 0:
			t.Errorf("offline, the node calls %q", calls)
		case mode == "live" && len(calls) == 0:
			t.Error("live, the node calls nobody: the watch is blind")
		}
	}
}
