package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// errnos are the errors of a file system that a command may meet.
var errnos = []string{
	"EPERM", "ENOENT", "EIO", "ENXIO", "EACCES", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR", "EISDIR", "EINVAL",
	"ENFILE", "EMFILE", "ETXTBSY", "EFBIG", "ENOSPC", "EROFS", "ENAMETOOLONG", "ELOOP", "EOVERFLOW", "ESTALE", "EDQUOT",
}

// TestEveryErrno: whatever error a disk returns for the files that a command names, and for those of its home, the
// command does not say that allium has a bug, and names the file. strace is the disk: it has one system call of the
// command fail.
func TestEveryErrno(t *testing.T) {
	mayTrace(t)
	if testing.Short() {
		t.Skip("runs more than a hundred commands")
	}
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"tree", "out"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "tree/inner"} {
		if err := os.WriteFile(at(name), make([]byte, 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	initHome(t, at("home"))
	initHome(t, at("other"))
	node, said := startJSON(t, exec.Command("allium", "--home", at("home"), "--json", "run", "--profile", "testnet",
		"--end-with-stdin", "--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	defer node.stop(t)
	allium := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "allium", args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	root := allium("--home", at("home"), "add", "-q", at("file"))
	token := allium("--home", at("home"), "token", "mint", "--op", "put,pin", "--expires", "1h")

	for _, c := range []struct {
		name    string
		calls   string // those that fail
		path    string // of the file or directory that they use
		named   string // what the sentence must contain
		command []string
	}{
		{"add of a file that cannot be read", "read,pread64", "tree/inner", "inner", []string{"add", at("tree")}},
		{"add of a directory that cannot be listed", "getdents64", "tree", "tree", []string{"add", at("tree")}},
		{"get into a directory that takes no file", "openat", "out", "out", []string{"get", root, "-o", at("out/o")}},
		{"an upload of a file", "openat", "file", "file", []string{"add", "--gateway", said.Gateway, at("file")}},
		{"run with a configuration that cannot be read", "openat", "other/config.toml", "config.toml",
			[]string{"--home", at("other"), "run", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"}},
		{"run with a store that cannot be opened", "openat", "other/store", "other",
			[]string{"--home", at("other"), "run", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"}},
	} {
		for _, errno := range errnos {
			if errno == "ENOENT" && c.path == "other/config.toml" {
				continue // a home without one is right
			}
			args := []string{"-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "-e", "signal=none", "-P", at(c.path),
				"-e", "trace=" + c.calls, "-e", "inject=" + c.calls + ":error=" + errno, "allium"}
			if c.command[0] != "--home" {
				args = append(args, "--home", at("home"))
			}
			cmd := exec.CommandContext(t.Context(), "strace", append(args, c.command...)...)
			cmd.Env = append(os.Environ(), "ALLIUM_TOKEN="+token)
			cmd.WaitDelay = time.Minute
			out, err := cmd.CombinedOutput()
			code := cmd.ProcessState.ExitCode()
			switch {
			case err == nil, code == 70, strings.Contains(string(out), "bug in allium"):
				t.Errorf("%s, %s: exit code %d: %s", c.name, errno, code, out)
			case !strings.Contains(string(out), c.named):
				t.Errorf("%s, %s: it does not name %s: %s", c.name, errno, c.named, out)
			}
		}
	}
}
