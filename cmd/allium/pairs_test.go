package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/protocols/status"
)

// pairsEnv names a variable with the time for which TestPairs runs each pair, such as 10s.
const pairsEnv = "ALLIUM_TEST_PAIRS"

// pairRuns is how often each command of a pair runs if pairsEnv is not set.
const pairRuns = 1

// pairCommand is a command that people run while another one runs on the same home, cache, socket and directory.
type pairCommand struct {
	name string
	args func(p *pairs, run int) []string
	// until, if not empty, is a text after which the command is interrupted. It ends by itself otherwise.
	until string
	// busy is what the command may say, with exit code 75, because the other one runs.
	busy []string
}

// pairs is what all commands of a test share.
type pairs struct {
	dir, home string
	file, top string // addresses of a file and of a directory
}

func (p *pairs) out(kind string, run int) string {
	return filepath.Join(p.dir, "out", fmt.Sprintf("%s-%d", kind, run))
}

// TestPairs runs every pair of commands at once, again and again, as processes that share a home, a cache, a socket
// and a directory. None may fail, except in words that say that the other one is in the way.
func TestPairs(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts some hundred processes")
	}
	t.Parallel()
	fixed := func(args ...string) func(*pairs, int) []string { return func(*pairs, int) []string { return args } }
	add := pairCommand{name: "add", args: func(p *pairs, _ int) []string {
		return []string{"add", filepath.Join(p.dir, "tree")}
	}}
	mint := pairCommand{name: "token mint", args: fixed("token", "mint", "--op", "put", "--expires", "1h")}
	set := pairCommand{
		name: "config set",
		args: func(_ *pairs, run int) []string {
			return []string{"config", "set", "store.max_bytes", fmt.Sprintf("%dGiB", 10+run)}
		},
	}
	get := pairCommand{name: "get", args: func(p *pairs, run int) []string {
		return []string{"get", p.file, "-o", p.out("file", run)}
	}}
	getTop := pairCommand{name: "get directory", args: func(p *pairs, run int) []string {
		return []string{"get", p.top, "-o", p.out("top", run)}
	}}
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		p := newPairs(t)
		n, _ := startJSON(t, exec.CommandContext(t.Context(), "allium", "--home", p.home, "--json", "run",
			"--profile", "testnet", "--end-with-stdin",
			"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
		defer n.stop(t)
		p.must(t, "zone", "new", "-q")
		p.must(t, "publish", filepath.Join(p.dir, "tree"), "--as", "site")
		zone := strings.TrimSpace(p.must(t, "zone", "ls", "-q"))
		p.each(t, []pairCommand{
			add, get, getTop, mint, set,
			{name: "get --update", args: func(p *pairs, _ int) []string {
				return []string{"get", p.top, "--update", "-o", filepath.Join(p.dir, "out")}
			}},
			{name: "follow", busy: []string{"another process follows a name"}, args: func(p *pairs, _ int) []string {
				return []string{"follow", "site." + zone, filepath.Join(p.dir, "followed"), "--once"}
			}},
			{name: "publish --watch", until: "b3:", args: func(p *pairs, _ int) []string {
				return []string{"publish", filepath.Join(p.dir, "tree"), "--as", "site", "--watch"}
			}},
		})
	})
	t.Run("store", func(t *testing.T) {
		t.Parallel()
		newPairs(t).each(t, []pairCommand{
			add, mint, set,
			{name: "store rebuild", args: fixed("store", "rebuild")},
			{name: "cat", args: func(p *pairs, _ int) []string { return []string{"cat", p.file} }},
		})
	})
}

func newPairs(t *testing.T) *pairs {
	t.Helper()
	dir := t.TempDir()
	p := &pairs{dir: dir, home: filepath.Join(dir, "home")}
	for _, d := range []string{"tree", "out", "followed"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	big := filepath.Join(dir, "tree", "big")
	for name, size := range map[string]int{big: 2 << 20, filepath.Join(dir, "tree", "small"): 10} {
		if err := os.WriteFile(name, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.must(t, "init", "--profile", "testnet")
	p.file = strings.TrimSpace(p.must(t, "add", "-q", big))
	p.top = strings.TrimSpace(p.must(t, "add", "-q", filepath.Join(dir, "tree")))
	return p
}

// must runs a command that nothing is in the way of.
func (p *pairs) must(t *testing.T, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "allium", append([]string{"--home", p.home}, args...)...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, errs.String())
	}
	return string(out)
}

// each runs every pair of the commands.
func (p *pairs) each(t *testing.T, commands []pairCommand) {
	t.Helper()
	var least time.Duration
	if s := os.Getenv(pairsEnv); s != "" {
		var err error
		if least, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	said := &sentences{}
	run := 0 // numbers outputs
	var mu sync.Mutex
	next := func() int {
		mu.Lock()
		defer mu.Unlock()
		run++
		return run
	}
	for i, a := range commands {
		for _, b := range commands[i:] {
			begun := time.Now()
			var both sync.WaitGroup
			for _, c := range []pairCommand{a, b} {
				both.Go(func() {
					for done := 0; done < pairRuns || time.Since(begun) < least; done++ {
						said.add(t, a.name+" and "+b.name, c, p.run(t.Context(), c, next()))
					}
				})
			}
			both.Wait()
		}
	}
	said.log(t)
}

// ended is how a command ended.
type ended struct {
	exit   int
	stderr string
}

// run runs a command once.
func (p *pairs) run(ctx context.Context, c pairCommand, run int) ended {
	cmd := exec.CommandContext(ctx, "allium", append([]string{"--home", p.home}, c.args(p, run)...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if c.until != "" {
		cmd.Stdout = &interrupter{cmd: cmd, until: c.until}
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ended{-1, err.Error()}
	}
	return ended{cmd.ProcessState.ExitCode(), errs.String()}
}

// interrupter interrupts a command once it has written until.
type interrupter struct {
	cmd   *exec.Cmd
	until string
	said  bytes.Buffer
}

func (i *interrupter) Write(p []byte) (int, error) {
	i.said.Write(p)
	if strings.Contains(i.said.String(), i.until) {
		_ = i.cmd.Process.Signal(os.Interrupt) // it may have ended
	}
	return len(p), nil
}

// sentences counts what commands said when they failed.
type sentences struct {
	mu    sync.Mutex
	count map[string]int
	runs  int
}

// add reports a failure that its command may not have.
func (s *sentences) add(t *testing.T, pair string, c pairCommand, e ended) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	if e.exit == 0 || c.until != "" && e.exit == status.Canceled.Exit() {
		return
	}
	if s.count == nil {
		s.count = map[string]int{}
	}
	s.count[fmt.Sprintf("%s: %s: exit %d: %s", pair, c.name, e.exit, e.stderr)]++
	inTheWay := func(words string) bool { return strings.Contains(e.stderr, words) }
	if e.exit != status.Busy.Exit() || !slices.ContainsFunc(c.busy, inTheWay) {
		t.Errorf("%s: %s ended with %d: %s", pair, c.name, e.exit, e.stderr)
	}
}

func (s *sentences) log(t *testing.T) {
	t.Helper()
	for said, n := range s.count {
		t.Logf("%d of %d: %s", n, s.runs, said)
	}
}
