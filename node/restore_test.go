//go:build unix

package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/files"
	"allium/protocols/status"
)

// getRestoring gets an object to out on a node that runs, and returns whether a file of the store was moved.
func getRestoring(t *testing.T, n api.Node, key, out string) (moved bool) {
	t.Helper()
	s, err := n.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	write := s.WriteFile
	s.WriteFile = func(f *os.File, path string, report api.ProgressFunc) (bool, error) {
		var err error
		moved, err = write(f, path, report)
		return moved, err
	}
	if err := files.Extract(s, out, files.ExtractOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	return moved
}

// awaitRestores waits until n has restored an object, or has given it up.
func awaitRestores(t *testing.T, n *running) {
	t.Helper()
	testkit.Eventually(t, "the restore has ended", func() bool { return metric(t, n, "store_restores_total") == 1 })
}

// TestGetMovesAndRestores: the output of a cold get on a node that runs is the file of the store, with the
// permissions of a new file. The node can read the object at once and has it again soon, and later gets
// are copies.
func TestGetMovesAndRestores(t *testing.T) {
	noLeaks(t)
	const size = 9<<20 + 5
	asker, providers, key := provided(t, 1, size, "0")
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if !getRestoring(t, asker.API(), key, out) {
		t.Error("the file was copied")
	}
	compare(t, asker, key, out)
	fresh := filepath.Join(dir, "fresh")
	if f, err := os.Create(fresh); err != nil || f.Chmod(0o644) != nil || f.Close() != nil {
		t.Fatal(err)
	}
	was, err := os.Stat(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode() != was.Mode() {
		t.Errorf("the output has the mode %v, not %v: %v", info.Mode(), was.Mode(), err)
	}
	awaitRestores(t, asker)
	if err := providers[0].stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy")
	if getRestoring(t, asker.API(), key, copied) {
		t.Error("an object that was here was moved")
	}
	compare(t, asker, key, copied)
	if names, err := os.ReadDir(dir); err != nil || len(names) != 3 {
		t.Errorf("%v is there: %v", names, err)
	}
}

// TestGetThroughSocketRestores: the same through the socket. Whether the file is moved depends on whether the
// node has noticed in time that the stream of the client was closed.
func TestGetThroughSocketRestores(t *testing.T) {
	noLeaks(t)
	asker, _, key := provided(t, 1, 12<<20, "0")
	out := filepath.Join(t.TempDir(), "out")
	moved := getRestoring(t, asker.api, key, out)
	compare(t, asker, key, out)
	if moved {
		awaitRestores(t, asker)
	}
	for v, err := range asker.api.Verify(t.Context(), key, api.VerifyOptions{}) {
		if err != nil || v.Error != nil {
			t.Errorf("%+v, %v", v, err)
		}
	}
}

// TestGetChangedIsNotRestored: an output that its user changes right after the command never damages the
// store, whether the copy was made before or not.
func TestGetChangedIsNotRestored(t *testing.T) {
	noLeaks(t)
	const size = 24 << 20
	asker, _, key := provided(t, 1, size, "0")
	out := filepath.Join(t.TempDir(), "out")
	if !getRestoring(t, asker.API(), key, out) {
		t.Error("the file was copied")
	}
	if err := os.Truncate(out, size/2); err != nil {
		t.Fatal(err)
	}
	awaitRestores(t, asker)
	for v, err := range asker.api.Verify(t.Context(), key, api.VerifyOptions{}) {
		if err != nil && status.Of(err) != status.NotFound || v.Error != nil {
			t.Errorf("%+v, %v", v, err)
		}
	}
	again := filepath.Join(t.TempDir(), "out")
	getRestoring(t, asker.API(), key, again)
	compare(t, asker, key, again)
	if n := metric(t, asker, "integrity_fail_total"); n != 0 {
		t.Errorf("%v stored objects were damaged", n)
	}
}

// TestGetRestoreStops: a node that stops right after a get leaves a whole output and a whole store.
func TestGetRestoreStops(t *testing.T) {
	noLeaks(t)
	asker, _, key := provided(t, 1, 24<<20, "0")
	out := filepath.Join(t.TempDir(), "out")
	if !getRestoring(t, asker.API(), key, out) {
		t.Error("the file was copied")
	}
	if err := asker.stop(); err != nil {
		t.Fatal(err)
	}
	again := startAt(t, asker.home, nil)
	for v, err := range again.api.Verify(t.Context(), key, api.VerifyOptions{}) {
		if err != nil && status.Of(err) != status.NotFound || v.Error != nil {
			t.Errorf("%+v, %v", v, err)
		}
	}
	if added := add(t, again, out)[0].Root.String(); added != key {
		t.Errorf("the output has the address %s, not %s", added, key)
	}
}

// TestGetToOtherFileSystem: an output on another file system, or with a second name, is a copy.
func TestGetToOtherFileSystem(t *testing.T) {
	noLeaks(t)
	asker, _, key := provided(t, 1, 3<<20, "0")
	dir, err := os.MkdirTemp("/dev/shm", "allium-test-")
	if err != nil {
		t.Skip("there is no other file system:", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	out := filepath.Join(dir, "out")
	if getRestoring(t, asker.API(), key, out) {
		t.Error("the file was moved")
	}
	compare(t, asker, key, out)
}
