package node_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// tryPut stores bytes in a node.
func (c *crashing) tryPut(t *testing.T, p []byte) (root b3.Root, err error) {
	t.Helper()
	for a, err := range c.API().Add(t.Context(), bytes.NewReader(tarOf(t, tarFile{name: "file", data: string(p)})),
		api.AddOptions{}, nil) {
		if err != nil {
			return root, err
		}
		root = a.Root
	}
	return root, nil
}

// TestFullAndReadOnlyDisk: on a disk that fills up, and then takes no writes at all, a node loses nothing that it has
// acknowledged, and says no_space or not_ready. Once the disk takes writes again, the next start does too. The disk is
// a small file system in RAM.
func TestFullAndReadOnlyDisk(t *testing.T) {
	if !testkit.InNamespaces(t) {
		return
	}
	place := testkit.SmallDisk(t, "128m")
	home := filepath.Join(place, "home")
	bytesOf := func(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%07d ", i)), 128<<10) } // 1 MiB
	var acknowledged []b3.Root
	holds := func(c *crashing) {
		t.Helper()
		for i, root := range acknowledged {
			c.has(t, root, bytesOf(i))
		}
	}
	ends := func(c *crashing) {
		t.Helper()
		c.cancel()
		if <-c.stopped; c.err != nil {
			t.Errorf("it stopped with %v", c.err)
		}
		noTemporary(t, home)
	}
	c := startCrashing(t, home, nil)
	var full error
	for i := 0; full == nil; i++ {
		var root b3.Root
		if root, full = c.tryPut(t, bytesOf(i)); full == nil {
			acknowledged = append(acknowledged, root)
		}
	}
	if status.Of(full) != status.NoSpace {
		t.Errorf("on a full disk: %v", full)
	}
	if len(acknowledged) == 0 || len(acknowledged) > 64 {
		t.Fatalf("%d MiB were stored: %v", len(acknowledged), full)
	}
	filler, err := os.Create(filepath.Join(place, "filler")) // another program takes what is left
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 64<<10))
	}
	_ = filler.Close()
	if _, err := c.tryPut(t, []byte("new")); status.Of(err) != status.NoSpace && err != nil {
		t.Errorf("on a disk without a byte: %v", err)
	}
	holds(c)
	ends(c)
	c = startCrashing(t, home, nil)
	holds(c)
	ends(c)

	if err := syscall.Mount("", place, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("it cannot be made read-only here: %v", err)
	}
	c = startCrashing(t, home, nil)
	select {
	case <-c.stopped: // it may refuse to start
	default:
		holds(c)
		if _, err := c.tryPut(t, []byte("new")); status.Of(err) != status.NotReady && status.Of(err) != status.NoSpace {
			t.Errorf("on a read-only disk: %v", err)
		}
		c.cancel()
		<-c.stopped
	}
	if c.err != nil && status.Of(c.err) == status.Internal {
		t.Errorf("on a read-only disk: %v", c.err)
	}
	if err := syscall.Mount("", place, "", syscall.MS_REMOUNT, "size=256m"); err != nil {
		t.Fatal(err)
	}
	c = startCrashing(t, home, nil)
	holds(c)
	root, err := c.tryPut(t, bytesOf(1000))
	if err != nil {
		t.Fatal(err)
	}
	c.has(t, root, bytesOf(1000))
	ends(c)
}

// TestNoDescriptors: while the process may open no more files, a node refuses what needs one and ends nothing. It
// works as before once it may.
func TestNoDescriptors(t *testing.T) {
	if !testkit.InNamespaces(t) { // a process of its own
		return
	}
	c := startCrashing(t, t.TempDir(), nil)
	want := bytes.Repeat([]byte("kept"), 500_000)
	root := c.put(t, want)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, small := c.tryPut(t, []byte("small"))
	_, large := c.tryPut(t, bytes.Repeat([]byte("more"), 500_000))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{small, large} {
		if o := status.Of(err); o == status.Internal || o == status.Corrupt {
			t.Errorf("without descriptors: %v", err)
		}
	}
	c.has(t, root, want)
	more, err := c.tryPut(t, bytes.Repeat([]byte("more"), 500_000))
	if err != nil {
		t.Fatal(err)
	}
	c.has(t, more, bytes.Repeat([]byte("more"), 500_000))
	c.cancel()
	if <-c.stopped; c.err != nil {
		t.Errorf("it stopped with %v", c.err)
	}
	t.Logf("without descriptors: %v; %v", small, large)
}
