package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"allium/internal/testkit"
)

// TestGetToOtherDisk gets a file by ticket, a large one and a small one, to another file system: one with
// room for little more than the file, one without until it gets some, and one that is read-only. The other
// file system is one in RAM, which this test alone sees.
func TestGetToOtherDisk(t *testing.T) {
	if !testkit.InNamespaces(t) {
		return
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(flags uintptr, options string) {
		t.Helper()
		if err := unix.Mount("tmpfs", disk, "tmpfs", flags, options); err != nil {
			t.Skipf("no file system can be mounted here: %v", err)
		}
	}
	unmount := func() {
		t.Helper()
		if left, err := filepath.Glob(filepath.Join(disk, ".allium*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
		if err := unix.Unmount(disk, 0); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "A")
	startNode(t, home)
	running := filepath.Join(dir, "B")
	startNode(t, running)
	for name, size := range map[string]int{"large": 30 << 20, "small": 1000} {
		content := make([]byte, size)
		if _, err := rand.Read(content); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		ticket, err := exec.Command("allium", "--home", home, "share", file).Output()
		if err != nil {
			t.Fatal(err)
		}
		get := func(home string, exit int, want string) {
			t.Helper()
			cmd := exec.Command("allium", "--home", home, "get", "-", "-o", filepath.Join(disk, name))
			cmd.Stdin = bytes.NewReader(ticket)
			said, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != exit || !strings.Contains(string(said), want) {
				t.Errorf("%s: exit code %d, want %d and %q: %s", name, got, exit, want, said)
			}
		}
		none := filepath.Join(dir, "none")
		mount(0, "size=48m")
		get(none, 0, "direct")
		if got, err := os.ReadFile(filepath.Join(disk, name)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s has %d bytes: %v", name, len(got), err)
		}
		get(none, 5, "--overwrite")
		unmount()

		mount(0, "size=48m")
		get(running, 0, "direct") // its store is on another disk
		unmount()

		if name == "large" {
			mount(0, "size=24m")
			get(none, 28, "the disk is full: "+disk+" has no room for the rest. Make space there")
			mount(unix.MS_REMOUNT, "size=48m")
			get(none, 0, "direct") // goes on with what came, if something did
			if got, err := os.ReadFile(filepath.Join(disk, name)); err != nil || !bytes.Equal(got, content) {
				t.Errorf("with more space %s has %d bytes: %v", name, len(got), err)
			}
			unmount()
		}
		mount(unix.MS_RDONLY, "size=48m")
		get(none, 77, "this user may not write")
		unmount()
	}
}
