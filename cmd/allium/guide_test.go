package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/testkit"
)

// laptop runs commands of a guide in a network namespace, with a home directory and nothing configured.
type laptop struct {
	*testing.T
	space, home, dir string
}

func (l laptop) command(line string) *exec.Cmd {
	cmd := exec.Command("ip", "netns", "exec", l.space, "sh", "-c", "exec "+line)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "HOME="+l.home, "ALLIUM_HOME=", "TMPDIR="+l.home, "ALLIUM_LISTEN__PORT_MAP=false")
	return cmd
}

// share runs a line that shares until the test ends, and returns its ticket and a function that returns what
// it told the user.
func (l laptop) share(line string) (ticket string, told func() string, stop func()) {
	l.Helper()
	out, said := filepath.Join(l.home, "out"), filepath.Join(l.home, "said")
	files := [2]*os.File{}
	for i, name := range []string{out, said} {
		f, err := os.Create(name)
		if err != nil {
			l.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	cmd := l.command(line)
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		}
	}
	l.Cleanup(stop)
	text := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			l.Error(err)
		}
		return string(b)
	}
	told = func() string { return text(said) }
	testkit.Eventually(l.T, "a ticket", func() bool { return strings.HasSuffix(text(out), "\n") })
	testkit.Eventually(l.T, "for whom it is", func() bool { return strings.Contains(told(), "serving until Ctrl-C") })
	return text(out), told, stop
}

// TestSharingGuide runs, in two network namespaces that a bridge joins, the commands of the guide for which
// two machines are needed. TestDocsRun runs the others.
func TestSharingGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("makes network namespaces")
	}
	var lines []string
	for _, b := range blocksOf(t, "docs/sharing.md") {
		if b.value("check") == "machine" {
			lines = append(lines, strings.TrimSpace(b.text))
		}
	}
	if len(lines) != 5 {
		t.Fatalf("the guide has the blocks %q: this test runs five", lines)
	}
	spaces := joinedNamespaces(t)
	var laptops []laptop
	for _, space := range spaces {
		l := laptop{t, space, t.TempDir(), t.TempDir()}
		laptops = append(laptops, l)
	}
	one, two := laptops[0], laptops[1]
	if err := os.Mkdir(filepath.Join(one.dir, "photos"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("beach"), 1000)
	if err := os.WriteFile(filepath.Join(one.dir, "photos", "beach.jpg"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	get := func(line, ticket string) {
		t.Helper()
		cmd := two.command(line)
		cmd.Stdin = strings.NewReader(ticket)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "direct tcp") {
			t.Errorf("%s: %v: %s", line, err, out)
		}
		photos := filepath.Join(two.dir, "photos")
		if got, err := os.ReadFile(filepath.Join(photos, "beach.jpg")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the copy has %d bytes, %v", line, len(got), err)
		}
		if err := os.RemoveAll(photos); err != nil {
			t.Error(err)
		}
	}

	if out, err := one.command(lines[0]).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", lines[0], err, out)
	}
	lines = lines[1:]
	ticket, told, stop := one.share(lines[0])
	if !strings.Contains(told(), "for this local network, until ") {
		t.Errorf("%s: %s", lines[0], told())
	}
	get(lines[1], ticket)
	testkit.Eventually(t, "a line that says that it arrived", func() bool {
		return strings.Contains(told(), "has it whole, direct tcp")
	})
	out, err := one.command(lines[2]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "forward ") || !strings.Contains(string(out), "local network") {
		t.Errorf("%s: %v: %s", lines[2], err, out)
	}
	stop()

	ticket, _, stop = one.share(lines[3])
	get(lines[1], ticket)
	stop()
	if left, err := os.ReadDir(filepath.Join(two.home)); err != nil || len(left) > 0 {
		t.Errorf("who gets has %v, %v", left, err)
	}
}
