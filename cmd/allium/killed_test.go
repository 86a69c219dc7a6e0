package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// serviceStarts is the line of the log that says which service starts.
var serviceStarts = regexp.MustCompile(`msg="a service starts" task=(\S+)`)

// startLogged starts a node in a home and returns the lines of its log, at level debug.
func startLogged(t *testing.T, home string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "allium", "--home", home, "run", "--profile", "testnet",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "ALLIUM_LOG__LEVEL=debug", "ALLIUM_LOG__FORMAT=text")
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(log)
}

// signalAt waits for a line of the log that contains text, sends the node a signal, and returns its exit code.
func signalAt(t *testing.T, cmd *exec.Cmd, log *bufio.Scanner, text string, sig syscall.Signal) int {
	t.Helper()
	seen := false
	for log.Scan() {
		if !seen && strings.Contains(log.Text(), text) {
			seen = true
			if err := cmd.Process.Signal(sig); err != nil {
				t.Error(err)
			}
		}
	}
	err := cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if !seen {
		t.Errorf("the log has no %q", text)
	}
	return cmd.ProcessState.ExitCode()
}

// filesBelow lists the files of a home but for those of its two databases, which name theirs as they go.
func filesBelow(t *testing.T, home string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(home, path)
		if d.IsDir() && (name == "records" || name == filepath.Join("store", "index")) {
			return fs.SkipDir
		}
		if !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestSignalInEveryStage sends SIGKILL or SIGTERM to a node while each of its stages begins, and while it reloads. The
// next start gets as far as the one before. SIGTERM ends a start with 130, and a node that is ready with 0. What was
// acknowledged is there at the end, and no file is left.
func TestSignalInEveryStage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node for each stage")
	}
	t.Parallel()
	home, file := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "file")
	initHome(t, home)
	want := bytes.Repeat([]byte("kept"), 50_000)
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := exec.Command("allium", "--home", home, "add", "-q", file).Output()
	if err != nil {
		t.Fatal(err)
	}

	// The first node is ready when the last stage, which makes reloads possible, is.
	var stages []string
	cmd, log := startLogged(t, home)
	for log.Scan() {
		if m := serviceStarts.FindStringSubmatch(log.Text()); m != nil {
			stages = append(stages, m[1])
		}
		if slices.Contains(stages, "reloads") {
			break
		}
	}
	if len(stages) < 20 {
		t.Errorf("stages: %v", stages)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	for log.Scan() {
		continue
	}
	_ = cmd.Wait() // it may have been a stage early
	before := filesBelow(t, home)

	for i, stage := range stages {
		sig, code := syscall.SIGKILL, -1
		if i%2 == 1 {
			sig, code = syscall.SIGTERM, 130
		}
		cmd, log := startLogged(t, home)
		got := signalAt(t, cmd, log, "task="+stage, sig)
		if got != code && (got != 0 || sig == syscall.SIGKILL) { // the node may be ready before the signal
			t.Errorf("%s in %s: exit code %d, want %d", sig, stage, got, code)
		}
	}
	for i, at := range []string{"a reload begins", "new values of the configuration are in force"} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGKILL: -1, syscall.SIGTERM: 0} {
			cmd, log := startLogged(t, home)
			for log.Scan() && !strings.Contains(log.Text(), "task=reloads") {
				continue
			}
			rate := fmt.Sprintf("%dMiB", 100+10*i+code) // another one each time
			if out, err := exec.Command("allium", "--home", home, "config", "set", "node.upload_rate", rate).
				CombinedOutput(); err != nil {
				t.Errorf("config set: %v: %s", err, out)
			}
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			if got := signalAt(t, cmd, log, at, sig); got != code {
				t.Errorf("%s where %s: exit code %d, want %d", sig, at, got, code)
			}
		}
	}

	cmd, log = startLogged(t, home)
	if code := signalAt(t, cmd, log, "task=gateway", syscall.SIGTERM); code != 130 && code != 0 {
		t.Errorf("at the end: exit code %d", code)
	}
	if after := filesBelow(t, home); !slices.Equal(after, before) {
		t.Errorf("files:\n%q\nwere\n%q", after, before)
	}
	got, err := exec.Command("allium", "--home", home, "cat", strings.TrimSpace(string(root))).Output()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}
