package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/b3"
)

// watched are the system calls that open files, make or change names, or cut.
// Not every machine has all of them.
var watched = strings.Fields(`open openat openat2 creat rename renameat renameat2 mkdir mkdirat rmdir unlink unlinkat
	truncate ftruncate fallocate link linkat symlink symlinkat mknod mknodat chmod fchmod fchmodat fchmodat2
	chown fchown lchown fchownat utimensat setxattr lsetxattr fsetxattr mount bind
	copy_file_range open_by_handle_at io_uring_setup`)

// TestAmnesiaWritesNothing runs a micronode from its start to its end under
// strace, through adding, fetching from another node, reading by the gateway,
// pins, verification and eviction: it opens no file for writing, makes no name
// but those of its socket, and leaves nothing.
func TestAmnesiaWritesNothing(t *testing.T) {
	t.Parallel()
	mayTrace(t)
	other := filepath.Join(t.TempDir(), "other")
	large, tree := writeTree(t)
	_, _ = startNode(t, other)
	fetched := strings.TrimSpace(allium(t, other, "add", "-q", tree))
	fetchedLarge := strings.TrimSpace(allium(t, other, "add", "-q", large))
	peer := firstAddr(t, other)

	home, tmp := filepath.Join(t.TempDir(), "home"), t.TempDir()
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := traced(trace, "--home", home, "run", "--profile", "micronode", "--listen", "/ip4/127.0.0.1/tcp/0",
		"--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--bootstrap", peer)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp, "ALLIUM_STORE__MEMORY_BYTES=8MiB")
	gateway := awaitReady(t, cmd)

	mine := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(mine, pattern(5*b3.GroupSize+3, 9), 0o600); err != nil {
		t.Fatal(err)
	}
	added := strings.TrimSpace(allium(t, home, "add", "-q", mine))
	allium(t, home, "get", fetched, "-o", filepath.Join(t.TempDir(), "copy"))
	if got := allium(t, home, "cat", fetchedLarge); got != string(pattern(largeSize, 1)) {
		t.Error("the fetched file has other bytes")
	}
	for _, path := range []string{"/o/" + added, "/o/" + fetchedLarge, "/b3/" + fetched + "/", "/b3/" + fetched + "/1",
		"/healthz"} {
		read(t, gateway+path)
	}
	allium(t, home, "pin", "add", fetchedLarge)
	allium(t, home, "pin", "ls")
	allium(t, home, "verify", "--all", "--repair")
	allium(t, home, "stat", "--store")
	allium(t, home, "diff", fetched, strings.TrimSpace(allium(t, home, "add", "-q", "--no-pin", filepath.Dir(mine))))
	allium(t, home, "gc", "plan")
	allium(t, home, "ls", fetched)
	allium(t, home, "pin", "rm", fetchedLarge)
	allium(t, home, "pin", "rm", added)
	spill := filepath.Join(t.TempDir(), "spill")
	for i := range 4 { // 10 MiB go into 8: the collector has to make room
		if err := os.WriteFile(spill, pattern(largeSize, 3+2*i), 0o600); err != nil {
			t.Fatal(err)
		}
		allium(t, home, "add", "-q", "--no-pin", spill)
	}
	allium(t, home, "gc", "run", "--all")
	if version := allium(t, home, "id"); version == "" {
		t.Error("the node does not say who it is")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}

	socket := filepath.Join(home, "run", "api.sock")
	writes := writesOf(t, trace)
	for _, allowed := range []struct{ call, path string }{
		{"mkdirat", home},                 // holds the socket's directory, and a key if there is one
		{"mkdirat", filepath.Dir(socket)}, // the socket's directory, which keeps other users out
		{"bind", socket},                  // commands talk to the node by it
		{"fchmodat", socket},              // its owner alone
		{"unlinkat", socket},              // at the end: nobody listens any more
	} {
		i := 0
		for ; i < len(writes) && (writes[i].call != allowed.call || writes[i].path != allowed.path); i++ {
		}
		if i == len(writes) {
			t.Errorf("%s of %s was not seen: the watch is blind, or the list of what is allowed too long", allowed.call,
				allowed.path)
			continue
		}
		writes = append(writes[:i], writes[i+1:]...)
	}
	for _, w := range writes {
		t.Errorf("a node with amnesia calls %s", w.line)
	}
	for dir, want := range map[string]int{home: 1, filepath.Join(home, "run"): 0, tmp: 0} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != want {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}

	// The same watch on a command that writes does see it.
	control := filepath.Join(t.TempDir(), "control")
	initHome(t, control)
	cmd = traced(trace, "--home", control, "add", "-q", mine)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := map[string]bool{}
	for _, w := range writesOf(t, trace) {
		seen[w.call] = true
	}
	if !seen["openat"] || !seen["mkdirat"] || !seen["renameat"] {
		t.Errorf("of a store on disk only %v are seen", seen)
	}
}

const largeSize = 40*b3.GroupSize + 11

// pattern is n bytes without a short period.
func pattern(n, seed int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*seed + i>>8 + i>>15)
	}
	return p
}

// writeTree makes a large file, and a directory of small ones.
func writeTree(t *testing.T) (large, tree string) {
	t.Helper()
	tree = filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(tree, fmt.Sprint(i)), pattern(1000*i, i+2), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	large = filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, pattern(largeSize, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	return large, tree
}

// mayTrace skips where no process can be watched; in CI that is a failure.
func mayTrace(t *testing.T) {
	t.Helper()
	why := "the watch needs Linux"
	if runtime.GOOS == "linux" {
		out, err := exec.Command("strace", "-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "true").CombinedOutput()
		if err == nil {
			return
		}
		why = fmt.Sprintf("strace cannot watch a process here: %v: %s", err, out)
	}
	testkit.Missing(t, why)
}

// traced is the program under strace, as the child of this process: the tracer
// is a grandchild.
func traced(trace string, args ...string) *exec.Cmd {
	return exec.Command("strace", append([]string{"-D", "-f", "--seccomp-bpf", "-q", "-s", "4096", "-e", "signal=none",
		"-e", "trace=?" + strings.Join(watched, ",?"), "-o", trace, "allium"}, args...)...)
}

// call is a system call that may change a disk.
type call struct{ call, path, line string }

var (
	callPattern = regexp.MustCompile(`^\d+ +(\w+)\((.*)`)
	pathPattern = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// traceOf waits until the tracer is done and returns what it wrote.
func traceOf(t *testing.T, trace string) (text string) {
	t.Helper()
	ended := testkit.Within(patience, func() bool {
		p, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		text = string(p)
		first, _, _ := strings.Cut(text, " ") // the process
		return regexp.MustCompile(`(?m)^` + first + ` +\+\+\+ (exited|killed)`).MatchString(text)
	})
	if !ended {
		t.Fatalf("the trace does not end:\n%.2000s", text)
	}
	return text
}

// writesOf returns the calls of a trace that do more than read; refused ones too.
func writesOf(t *testing.T, trace string) []call {
	t.Helper()
	var writes []call
	for line := range strings.Lines(traceOf(t, trace)) {
		m := callPattern.FindStringSubmatch(line)
		if m == nil {
			continue // the end of a call, or of a process
		}
		name, args := m[1], m[2]
		switch {
		case name == "bind" && !strings.Contains(args, "AF_UNIX"):
			continue
		case strings.HasPrefix(name, "open") && strings.Contains(args, "O_RDONLY") &&
			!strings.Contains(args, "O_CREAT") &&
			!strings.Contains(args, "O_TRUNC"):
			continue
		}
		path := ""
		if p := pathPattern.FindStringSubmatch(args); p != nil {
			path = p[1]
		}
		writes = append(writes, call{name, path, strings.TrimSpace(line)})
	}
	return writes
}

func allium(t *testing.T, home string, args ...string) string {
	t.Helper()
	cmd := exec.Command("allium", append([]string{"--home", home}, args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("allium %v: %v", args, err)
	}
	return string(out)
}

// firstAddr is where the node of that home listens for peers by TCP.
func firstAddr(t *testing.T, home string) string {
	t.Helper()
	addr := regexp.MustCompile(`/ip4/127\.0\.0\.1/tcp/[^"\s]+`).FindString(allium(t, home, "--json", "id"))
	if addr == "" {
		t.Fatal("the node has no address")
	}
	return addr
}

func read(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s, %v", url, resp.Status, err)
	}
}
