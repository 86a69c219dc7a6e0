package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/internal/testkit"
)

// needNoHome has the commands that work without a home directory, or have one of their own, and why. no_home.txt
// runs them. Those that write a file are in intoHome.
var needNoHome = map[string]string{
	"completion bash": "prints a script", "completion fish": "prints a script",
	"completion powershell": "prints a script", "completion zsh": "prints a script",
	"docs": "writes pages", "help": "prints help", "seeds inspect": "reads a file",
	"seeds sign": "has a key of its own",
	"sim dht":    "has no node", "sim fetch": "has no node", "testnet chaos": "has nodes of its own",
	"testnet down": "ends nodes of its own", "testnet run": "has nodes of its own",
	"testnet scenario": "has nodes of its own",
	"testnet status":   "reads nodes of its own", "testnet up": "has nodes of its own",
	"token attenuate": "reads a token", "token inspect": "reads a token", "version": "prints a line",
}

// homeArgs are the arguments of the commands that use a home directory.
func homeArgs(file string) map[string][]string {
	args := map[string][]string{
		"add": {file}, "announce": {nowhere}, "cat": {nowhere}, "config explain": {"dht.alpha"},
		"config get": {"dht.alpha"},
		"config set": {"dht.alpha", "4"}, "config unset": {"dht.alpha"},
		"connect": {"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"},
		"diff":    {nowhere, nowhere}, "doctor site": {"www.example.invalid", "--dns", "127.0.0.1:1"},
		"disconnect": {"12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"},
		"follow":     {"blog.site", file + ".d"}, "gc why": {nowhere},
		"get": {nowhere, "-o", file + ".got"}, "ls": {nowhere},
		"name link": {"blog", "--domain", "example.org"}, "name publish": {"blog.site", nowhere},
		"name watch": {"blog.site"}, "pack inspect": {nowhere}, "pack mount": {"city", nowhere},
		"pack unmount": {"city"}, "name withdraw": {"blog.site"}, "pin add": {nowhere}, "pin rm": {nowhere},
		"pin import": {file + ".pins"},
		"ping":       {"12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"},
		"providers":  {nowhere}, "publish": {file},
		"resolve": {nowhere}, "run": {"--profile", "testnet"}, "share": {file, "--for", "1s"}, "stat": {nowhere},
		"token key retire": {"1"}, "token mint": {"--op", "put"}, "token revoke": {"--key", "1"}, "verify": {"--all"},
		"why":         {nowhere},
		"zone export": {"site"},
		"zone import": {"--petname", "alice", "k51qzi5uqu5djmw2yvf8kk5cdjc1ddc00o4d5sjwi6f79xzcay9j3gkddw5uu4"},
	}
	for _, none := range []string{
		"audit verify", "config check", "config diff", "config show", "doctor", "doctor reach", "durability",
		"gc plan", "gc run", "id",
		"init", "limits", "name ls", "node drain", "node reload", "pack ls", "peers", "pin ls", "seeds", "store damage",
		"store rebuild",
		"swarm-key new", "swarm-key show", "token key ls", "token key rotate", "zone ls", "zone new",
	} {
		args[none] = nil
	}
	return args
}

// onEveryHome calls run with the words of every command that uses a home directory. A command that the tables do
// not have is an error.
func onEveryHome(t *testing.T, run func(name string, words []string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	pins := `{"root":"` + nowhere + `"}`
	err := errors.Join(os.WriteFile(file, []byte("x"), 0o600), os.WriteFile(file+".pins", []byte(pins), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	args := homeArgs(file)
	walk(rootCommand(cli.New()), func(c *cobra.Command) {
		name := nameOf(c)
		if name == "" || reflect.ValueOf(c.RunE).Pointer() == reflect.ValueOf(cli.Group).Pointer() ||
			needNoHome[name] != "" {
			return
		}
		words, known := args[name]
		if !known {
			t.Errorf("allium %s has no row: write its arguments to homeArgs, or to needNoHome why it uses no home",
				name)
			return
		}
		run(name, append(strings.Fields(name), words...))
	})
}

// nameOf returns the name of a command, without "allium".
func nameOf(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// intoHome are command lines that would write into the home directory home, while mine is the home of the command.
func intoHome(home, mine string) map[string][]string {
	const seed = "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"
	in := func(name string) string { return filepath.Join(home, name) }
	return map[string][]string{
		"config set":              {"config", "set", "--config", in("config.toml"), "dht.alpha", "4"},
		"config set (a new file)": {"config", "set", "--config", in("new.toml"), "dht.alpha", "4"},
		"config unset":            {"config", "unset", "--config", in("config.toml"), "node.profile"},
		"docs":                    {"docs", in("reference")},
		"doctor":                  {"doctor", "--bundle", in("report.tar.gz")},
		"follow":                  {"follow", "blog.site", in("blog")},
		"get":                     {"get", nowhere, "-o", in("got")},
		"get (an update)":         {"get", nowhere, "--update", "--delete", "-o", home},
		"seeds sign":              {"seeds", "sign", "--key", mine + "/identity.key", "-o", in("seeds.pem"), seed},
		"sim dht":                 {"sim", "dht", "-n", "50", "--lookups", "1", "-o", in("plot.svg")},
		"swarm-key new":           {"swarm-key", "new", in("net.key")},
		"swarm-key new (force)":   {"swarm-key", "new", "--force", in("config.toml")},
		"testnet scenario": {"testnet", "scenario", "--record", in("record"),
			"../../testnet/testdata/churn.txt"},
		"testnet up":           {"testnet", "up", "--record", in("record")},
		"zone export":          {"zone", "export", "site", "-o", in("capability.keys.new")},
		"zone export (deeper)": {"zone", "export", "site", "-o", in("zones/new.key")},
		"zone export (a link)": {"zone", "export", "site", "-o", filepath.Join(mine, "link", "new.key")},
		"zone export (a map)":  {"zone", "export", "--map", "site", "-o", in("team.map")},
	}
}

// inHome runs a command of this process on a home directory.
func inHome(t *testing.T, home string, words []string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	a := &cli.App{Streams: cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out}}
	return execute(t.Context(), a, append([]string{"--home", home}, words...)), out.String()
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

// newHomeOf makes a home directory for a user. A used one has a zone, a capability and a store.
func newHomeOf(t *testing.T, uid int, home string, used bool) {
	t.Helper()
	commands := [][]string{{"init"}}
	if used {
		commands = append(commands,
			[]string{"token", "mint", "--op", "put"}, []string{"zone", "new", "site"}, []string{"pin", "ls"})
	}
	for _, words := range commands {
		if code, said := inHome(t, home, words); code != 0 {
			t.Fatalf("%s: %s", words, said)
		}
	}
	must(t, os.MkdirAll(filepath.Join(home, "zones"), 0o700))
	must(t, filepath.WalkDir(home, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, uid, uid)
	}))
}

// TestHomeOfAnotherUser: no command that root runs changes a home directory of another user, whose node starts
// afterwards. It makes none in a directory of that user.
func TestHomeOfAnotherUser(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		testkit.Missing(t, "root on Linux: commands on the home of another user are not tested")
	}
	top := t.TempDir()
	for dir := top; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	mine := filepath.Join(top, "mine")
	newHomeOf(t, 0, mine, true)
	for _, state := range []string{"new", "used"} {
		home := filepath.Join(top, state)
		newHomeOf(t, homeOwner, home, state == "used")
		link := filepath.Join(mine, "link")
		must(t, errors.Join(os.RemoveAll(link), os.Symlink(home, link)))
		before := looks(t, home)
		refuseOnHome(t, home, mine, func(name string) {
			if after := looks(t, home); after != before {
				t.Fatalf("%s home: allium %s changed it from\n%sto\n%s", state, name, before, after)
			}
		})
		service := asOwner(home)
		awaitReady(t, service)
		if state == "new" {
			continue
		}
		refuseOnHome(t, home, mine, func(name string) { onlyOf(t, name, home) })
		must(t, service.Process.Kill())
		_ = service.Wait() // it was killed
		onlyOf(t, "run", home)
		awaitReady(t, asOwner(home))
	}

	parent := filepath.Join(top, "parent")
	must(t, errors.Join(os.Mkdir(parent, 0o700), os.Chown(parent, homeOwner, homeOwner)))
	for _, words := range [][]string{{"init"}, {"run", "--profile", "testnet"}} {
		code, said := inHome(t, filepath.Join(parent, "home"), words)
		if code != 77 || !strings.Contains(said, parent+" belongs to user 12345") {
			t.Errorf("a new home: allium %s ends with %d: %s", words, code, said)
		}
	}
	if list, err := os.ReadDir(parent); err != nil || len(list) > 0 {
		t.Errorf("the directory has %v, %v", list, err)
	}
}

// refuseOnHome runs every command on the home directory of another user, and from the home directory mine into
// it. Each must be refused. check is called after each.
func refuseOnHome(t *testing.T, home, mine string, check func(name string)) {
	t.Helper()
	onEveryHome(t, func(name string, words []string) {
		code, said := inHome(t, home, words)
		if code != 77 || !strings.Contains(said, "belongs to user 12345") {
			t.Errorf("allium %s ends with %d: %s", name, code, said)
		}
		check(name)
	})
	rows := intoHome(home, mine)
	for name, words := range rows {
		code, said := inHome(t, mine, words)
		if code != 77 || !strings.Contains(said, "the home directory of another user") {
			t.Errorf("allium %s into the home ends with %d: %s", name, code, said)
		}
		check(name)
	}
	walk(rootCommand(cli.New()), func(c *cobra.Command) {
		writes := c.Flags().Lookup("output") != nil || c.Flags().Lookup("record") != nil
		if name := nameOf(c); writes && rows[name] == nil {
			t.Errorf("allium %s writes a file: it has no row in intoHome", name)
		}
	})
}

// onlyOf expects that homeOwner owns and can read all files of a home directory.
func onlyOf(t *testing.T, after, home string) {
	t.Helper()
	must(t, filepath.WalkDir(home, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the node removes files
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // the node has removed it
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		if st.Uid != homeOwner || info.Mode().Type() != fs.ModeSymlink && info.Mode().Perm()&0o400 == 0 {
			t.Fatalf("after allium %s: %s is of user %d with mode %v", after, name, st.Uid, info.Mode())
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
