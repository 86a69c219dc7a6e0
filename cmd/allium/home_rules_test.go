package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"allium/internal/testkit"
)

// needNoHome are the commands that work without a home directory, or have one of their own. no_home.txt
// runs them.
var needNoHome = strings.Fields(`allium-completion-bash allium-completion-fish allium-completion-powershell
	allium-completion-zsh allium-docs allium-help allium-seeds-inspect allium-seeds-sign allium-sim-dht allium-sim-fetch
	allium-testnet-chaos allium-testnet-down allium-testnet-run allium-testnet-scenario allium-testnet-status
	allium-testnet-up allium-token-attenuate allium-token-inspect allium-version`)

// homeArgs are the arguments of the commands that need some. A new command without arguments needs no line.
func homeArgs(file string) map[string][]string {
	return map[string][]string{
		"add": {file}, "announce": {nowhere}, "cat": {nowhere}, "config explain": {"dht.alpha"}, "config get": {"dht.alpha"},
		"config set": {"dht.alpha", "4"}, "config unset": {"dht.alpha"},
		"connect": {"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"},
		"diff":    {nowhere, nowhere}, "disconnect": {"12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"},
		"follow": {"blog.site", file + ".d"}, "gc why": {nowhere}, "get": {nowhere, "-o", file + ".got"}, "ls": {nowhere},
		"name link": {"blog", "--domain", "example.org"}, "name publish": {"blog.site", nowhere},
		"name watch": {"blog.site"}, "name withdraw": {"blog.site"}, "pin add": {nowhere}, "pin rm": {nowhere},
		"ping": {"12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"}, "providers": {nowhere}, "publish": {file},
		"resolve": {nowhere}, "run": {"--profile", "testnet"}, "share": {file, "--for", "1s"}, "stat": {nowhere},
		"token key retire": {"1"}, "token mint": {"--op", "put"}, "token revoke": {"--key", "1"}, "verify": {"--all"},
		"why":         {nowhere},
		"zone export": {"site"},
		"zone import": {"--petname", "alice", "k51qzi5uqu5djmw2yvf8kk5cdjc1ddc00o4d5sjwi6f79xzcay9j3gkddw5uu4"},
	}
}

// onEveryHome calls run with the words of every command that uses a home directory.
func onEveryHome(t *testing.T, run func(name string, words []string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := homeArgs(file)
	walk(newApp().command(), func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())
		name := strings.Join(path[1:], " ")
		isGroup := c.HasSubCommands() && name != "durability" && name != "seeds"
		if isGroup || slices.Contains(needNoHome, strings.Join(path, "-")) {
			return
		}
		run(name, append(path[1:], args[name]...))
	})
}

// inHome runs a command of this process on a home directory.
func inHome(t *testing.T, home string, words []string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, err: &out}
	return a.execute(t.Context(), append([]string{"--home", home}, words...)), out.String()
}

// TestNoHome: only init and run make a home directory. Every other command says that there is none, and how
// to make one.
func TestNoHome(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "nope")
	onEveryHome(t, func(name string, words []string) {
		if name == "init" || name == "run" {
			return
		}
		code, said := inHome(t, home, words)
		if code != 4 || !strings.Contains(said, "no allium home at "+home) || !strings.Contains(said, "`allium init`") {
			t.Errorf("allium %s ends with %d: %s", name, code, said)
		}
		if _, err := os.Lstat(home); err == nil {
			t.Fatalf("allium %s made the home directory", name)
		}
	})
}

// homeOwner is the user who owns a home directory in TestHomeOfAnotherUser.
const homeOwner = 12345

// TestHomeOfAnotherUser: no command that root runs changes a home directory of another user, whose node starts
// afterwards.
func TestHomeOfAnotherUser(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		testkit.Missing(t, "root on Linux: commands on the home of another user are not tested")
	}
	top := t.TempDir()
	for dir := top; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, state := range []string{"new", "used"} {
		home := filepath.Join(top, state)
		commands := [][]string{{"init"}}
		if state == "used" {
			commands = append(commands,
				[]string{"token", "mint", "--op", "put"}, []string{"zone", "new", "site"}, []string{"pin", "ls"})
		}
		for _, words := range commands {
			if code, said := inHome(t, home, words); code != 0 {
				t.Fatalf("%s: %s", words, said)
			}
		}
		must(t, filepath.WalkDir(home, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(name, homeOwner, homeOwner)
		}))
		before := looks(t, home)
		onEveryHome(t, func(name string, words []string) {
			code, said := inHome(t, home, words)
			if code != 77 || !strings.Contains(said, "belongs to user 12345") {
				t.Errorf("%s home: allium %s ends with %d: %s", state, name, code, said)
			}
			if after := looks(t, home); after != before {
				t.Fatalf("%s home: allium %s changed it from\n%sto\n%s", state, name, before, after)
			}
		})
		node := asOwner(home)
		awaitReady(t, node)
		// Commands would go to the node that runs now: they are refused as well, and root owns no file.
		onEveryHome(t, func(name string, words []string) {
			if code, said := inHome(t, home, words); code != 77 {
				t.Errorf("%s home, its node runs: allium %s ends with %d: %s", state, name, code, said)
			}
		})
		belongsToOwner(t, home)
		must(t, node.Process.Kill())
		_ = node.Wait() // it was killed
		awaitReady(t, asOwner(home))
	}
}

// belongsToOwner checks that the owner of a home directory may read all that is in it.
func belongsToOwner(t *testing.T, home string) {
	t.Helper()
	must(t, filepath.WalkDir(home, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a file of the node that runs
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, _ := info.Sys().(*syscall.Stat_t); st.Uid != homeOwner || info.Mode()&fs.ModeSymlink == 0 && st.Mode&0o400 == 0 {
			t.Errorf("%s: owner %d, mode %s", name, st.Uid, info.Mode())
		}
		return nil
	}))
}

// asOwner returns `allium run` as the owner of a home directory.
func asOwner(home string) *exec.Cmd {
	return &exec.Cmd{
		Path: "/proc/self/exe", // the directory of the test binary may be closed to others
		Args: []string{"allium", "--home", home, "run", "--profile", "testnet"},
		Dir:  home, Env: append(os.Environ(), "HOME="+home, "TMPDIR="+home),
		SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: homeOwner, Gid: homeOwner}},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// looks returns the names, modes, sizes, times and owners below a directory.
func looks(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		fmt.Fprintln(&b, name, info.Mode(), info.Size(), info.ModTime(), st.Uid)
		return nil
	}))
	return b.String()
}
