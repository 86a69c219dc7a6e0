package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"allium/internal/testkit"
)

// onTerminal runs a command whose output goes to a terminal, and returns what that shows.
func onTerminal(t *testing.T, dir string, arg ...string) (string, error) {
	t.Helper()
	screen, terminal := openTerminal(t, 100)
	cmd := exec.Command("allium", arg...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, terminal, terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()           // the command has it
	shown, _ := io.ReadAll(screen) // ends with EIO when the command has ended
	return string(shown), cmd.Wait()
}

// TestZoneKeyInTerminal: no command shows the private key of a zone on a terminal.
func TestZoneKeyInTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	initHome(t, filepath.Join(dir, "A"))
	initHome(t, filepath.Join(dir, "B"))
	for _, c := range []struct {
		command string
		fails   bool
	}{
		{command: "--home A zone new site"},
		{command: "--home A --json zone new other"},
		{command: "--home A zone ls"},
		{command: "--home A --json zone ls"},
		{command: "--home A zone export site", fails: true},
		{command: "--home A --json zone export site", fails: true},
		{command: "--home A -q zone export site", fails: true},
		{command: "--home A zone export site -o -", fails: true},
		{command: "--home A zone export site -o site.key"},
		{command: "--home A --json zone export other -o other.key"},
		{command: "--home B zone import --petname mine site.key"},
		{command: "--home B --json zone import other.key"},
		{command: "--home A zone export --map site"},
	} {
		shown, err := onTerminal(t, dir, strings.Fields(c.command)...)
		if (err != nil) != c.fails {
			t.Errorf("allium %s: %v\n%s", c.command, err, shown)
		}
		if c.fails && !strings.Contains(shown, "is not printed to a terminal") {
			t.Errorf("allium %s: the reason is not among\n%s", c.command, shown)
		}
		keys, err := filepath.Glob(filepath.Join(dir, "*", "zones", "*.key"))
		if err != nil || len(keys) == 0 {
			t.Fatalf("after allium %s there are the keys %v, %v", c.command, keys, err)
		}
		for _, file := range keys {
			key, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// Any third of it would be too much.
			secret := bytes.TrimSpace(key)
			for n, at := len(secret)/3, 8; at+n <= len(secret); at += n {
				if strings.Contains(shown, string(secret[at:at+n])) {
					t.Errorf("allium %s shows the key", c.command)
				}
			}
		}
	}
}

// terminalRun is a command with a terminal as its standard error.
type terminalRun struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu    sync.Mutex
	shown bytes.Buffer
}

func (r *terminalRun) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown.Write(p)
}

func (r *terminalRun) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown.String()
}

func startOnTerminal(t *testing.T, columns uint16, dir string, arg ...string) *terminalRun {
	t.Helper()
	screen, terminal := openTerminal(t, columns)
	r := &terminalRun{cmd: exec.Command("allium", arg...), ended: make(chan struct{})}
	r.cmd.Dir, r.cmd.Stderr = dir, terminal
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	_ = terminal.Close()
	go func() {
		defer close(r.ended)
		_, _ = io.Copy(r, screen)
	}()
	return r
}

// TestStateInTerminal: publish --watch and follow keep their state on one line, at any width.
func TestStateInTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "A")
	if err := os.MkdirAll(filepath.Join(dir, "site"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(dir, "site", "page"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	startNode(t, home)
	run := func(arg ...string) string {
		cmd := exec.Command("allium", append([]string{"--home", home}, arg...)...)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("allium %v: %v", arg, err)
		}
		return string(out)
	}
	run("zone", "new", "me")
	name := regexp.MustCompile(`site\.k51[0-9a-z]+`).FindString(run("publish", "site", "--ttl", "5s"))
	for _, columns := range []uint16{40, 160} {
		watch := startOnTerminal(t, columns, dir, "--home", home, "publish", "site", "--watch", "--ttl", "5s")
		follow := startOnTerminal(t, columns, dir, "--home", home, "follow", name, fmt.Sprint("out", columns))
		want := map[*terminalRun]string{watch: `site\.k51`, follow: `site\.k51`}
		if columns == 160 {
			want[watch] = `is b3:\S+, looked at \d\d:\d\d:\d\d`
			want[follow] = `is number \d+, b3:\S+, looked up at \d\d:\d\d:\d\d`
		}
		for r, state := range want {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%v shows %q", r.cmd.Args, r.text())
				}
			})
			testkit.Eventually(t, state, func() bool { return regexp.MustCompile(state).MatchString(r.text()) })
		}
		write(fmt.Sprint("two at ", columns))
		testkit.Eventually(t, "the change in the copy", func() bool {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("out", columns), "page"))
			return err == nil && string(got) == fmt.Sprint("two at ", columns)
		})
		for r := range want {
			if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			<-r.ended
			_ = r.cmd.Wait() // ended by the interrupt
			drawn(t, int(columns), r.text())
		}
	}
}
