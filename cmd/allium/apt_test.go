package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/internal/testkit"
)

// TestApt: apt reads a flat repository and one with dists, below an address and below a name. It loads an unchanged
// index once, and sees a new one although it knows nothing but dates.
func TestApt(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Missing(t, "needs "+program+": whether apt reads repositories from a gateway is not tested")
		}
	}
	dir := t.TempDir()
	home, repo := filepath.Join(dir, "home"), filepath.Join(dir, "repo")
	initHome(t, home)
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	cmd := exec.Command("allium", "--home", home, "--json", "run", "--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	node, said := startJSON(t, cmd)
	defer node.stop(t)
	old := newRepository(t, repo, "1.0~rc1+b1")
	root := run(dir, "allium", "--home", home, "add", "-q", repo)
	name := run(dir, "allium", "--home", home, "-q", "publish", repo, "--ttl", "5s")

	type source struct {
		about, line string
		named       bool
		apt         aptDir
	}
	sources := []source{
		{about: "flat, below an address", line: said.Gateway + "/b3/" + root + " ./"},
		{about: "dists, below an address", line: said.Gateway + "/b3/" + root + " stable main"},
		{about: "flat, below a name", line: said.Gateway + "/n/" + name + " ./", named: true},
		{about: "dists, below a name", line: said.Gateway + "/n/" + name + " stable main", named: true},
	}
	for i := range sources {
		s := &sources[i]
		s.apt = newAptDir(t, s.line)
		run(s.apt.dir, "apt-get", s.apt.args("update")...)
		if again := run(s.apt.dir, "apt-get", s.apt.args("update")...); !strings.Contains(again, "Hit:") ||
			strings.Contains(again, "Get:") {
			t.Errorf("%s: an unchanged index is loaded again: %s", s.about, again)
		}
		run(s.apt.dir, "apt-get", s.apt.args("download", "greeting")...)
		s.apt.downloaded(t, s.about, old)
	}

	latest := newRepository(t, repo, "1.1")
	if again := run(dir, "allium", "--home", home, "-q", "publish", repo, "--ttl", "5s"); again != name {
		t.Fatalf("published as %s, then as %s", name, again)
	}
	for _, s := range sources {
		want := old
		if s.named {
			want = latest
		}
		run(s.apt.dir, "apt-get", s.apt.args("update")...)
		run(s.apt.dir, "apt-get", s.apt.args("download", "greeting")...)
		s.apt.downloaded(t, s.about+", after the update", want)
	}
}

// pkg is a Debian package.
type pkg struct {
	file  string
	bytes []byte
}

// newRepository writes a repository of one package to dir, which apt can read as a flat one and as one with dists. It
// replaces what was there.
func newRepository(t *testing.T, dir, version string) pkg {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	put := func(name string, p []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	control := fmt.Sprintf("Package: greeting\nVersion: %s\nArchitecture: all\nMaintainer: nobody <a@example.org>\n"+
		"Description: a test\n", version)
	tree := t.TempDir()
	put(filepath.Join(tree, "DEBIAN", "control"), []byte(control))
	put(filepath.Join(tree, "usr", "share", "greeting"), bytes.Repeat([]byte("hello\n"), 30_000))
	p := pkg{file: "greeting_" + version + "_all.deb"}
	name := filepath.Join(dir, "pool", p.file)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "dpkg-deb", "-Znone", "--root-owner-group", "-b", tree, name)
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	if p.bytes, err = os.ReadFile(name); err != nil {
		t.Fatal(err)
	}
	index := fmt.Appendf(nil, "%sFilename: pool/%s\nSize: %d\nSHA256: %x\n", control, p.file, len(p.bytes),
		sha256.Sum256(p.bytes))
	for at, file := range map[string]string{".": "Packages", "dists/stable": "main/binary-amd64/Packages"} {
		put(filepath.Join(dir, at, file), index)
		put(filepath.Join(dir, at, "Release"),
			fmt.Appendf(nil, "Suite: stable\nCodename: stable\nArchitectures: amd64\n"+
				"Components: main\nDate: %s\nSHA256:\n %x %d %s\n",
				time.Now().UTC().Format(time.RFC1123), sha256.Sum256(index),
				len(index), file))
	}
	return p
}

// aptDir is a directory with all that apt reads and writes.
type aptDir struct{ dir string }

// newAptDir makes a directory for apt with one unsigned source.
func newAptDir(t *testing.T, source string) aptDir {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"state/lists/partial", "cache/archives/partial", "etc", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"status": "", "etc/sources.list": "deb [trusted=yes] " + source + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return aptDir{dir}
}

// args returns the arguments of apt-get for a command that reads and writes only below the directory.
func (a aptDir) args(command ...string) []string {
	args := []string{"-o", "Debug::NoLocking=1"}
	for _, o := range []string{
		"Dir::State=" + a.dir + "/state", "Dir::State::status=" + a.dir + "/status", "Dir::Cache=" + a.dir + "/cache",
		"Dir::Etc=" + a.dir + "/etc", "Dir::Log=" + a.dir + "/log", "APT::Architecture=amd64",
		"APT::Architectures=amd64",
		"APT::Sandbox::User=", "Acquire::Languages=none", "Acquire::http::Proxy=DIRECT", "Acquire::Retries=0",
	} {
		args = append(args, "-o", o)
	}
	return append(args, command...)
}

// downloaded fails the test unless the directory has the package and no other one, and removes it.
func (a aptDir) downloaded(t *testing.T, about string, want pkg) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(a.dir, "*.deb"))
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: downloaded %v, %v", about, all, err)
	}
	got, err := os.ReadFile(all[0])
	if err != nil || filepath.Base(all[0]) != want.file || !bytes.Equal(got, want.bytes) {
		t.Errorf("%s: downloaded %s, %d bytes, not %s of %d, %v", about, all[0], len(got),
			want.file, len(want.bytes), err)
	}
	if err := os.Remove(all[0]); err != nil {
		t.Fatal(err)
	}
}
