package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/moved"
)

// movable accepts every file.
func movable(string) error { return nil }

// holdPuts keeps puts, and so restores, from running before release.
func holdPuts(t *testing.T, s *Store) (release func()) {
	t.Helper()
	release, err := s.puts.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// moveAndRestore moves an object of s to a new file and returns its path.
func moveAndRestore(t *testing.T, s *Store, root b3.Root) string {
	t.Helper()
	o, err := s.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	out := filepath.Join(t.TempDir(), "out")
	rename := func(path string) error { return os.Rename(path, out) }
	if err := s.MoveAndRestore(t.Context(), o, movable, rename); err != nil {
		t.Fatal(err)
	}
	return out
}

// wantBytes checks that the open object, or the error of opening it, is the object with the bytes p.
func wantBytes(t *testing.T, o *Object, err error, p []byte) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	got, err := io.ReadAll(o.Reader().Section(0, o.Size()))
	if err != nil || !bytes.Equal(got, p) {
		t.Errorf("the object has other bytes: %v", err)
	}
}

// awaitRestored waits until s restores nothing.
func awaitRestored(t *testing.T, s *Store) {
	t.Helper()
	testkit.Eventually(t, "every restore has ended", func() bool { return s.moved.Len() == 0 })
}

// wantSound checks that every object of s is right.
func wantSound(t *testing.T, s *Store, objects int) {
	t.Helper()
	es := listAll(t, s)
	for _, e := range es {
		if err := s.Verify(t.Context(), e.Root); err != nil {
			t.Error(err)
		}
	}
	if found := s.backend.Damages().All(); len(es) != objects || len(found) != 0 {
		t.Errorf("the store has %d objects and the damages %v", len(es), found)
	}
}

// TestMoveAndRestore: an object that was moved out can be read at once, is pinned when it is stored again,
// and then no longer depends on the file.
func TestMoveAndRestore(t *testing.T) {
	t.Parallel()
	cfg := onDisk(t)
	cfg.Puts = 1
	s, stop := startStore(t, cfg, vfs.Default)
	roots, data := largeObjects(t, s, 2)
	release := holdPuts(t, s)
	out := moveAndRestore(t, s, roots[0])
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, data[0]) {
		t.Errorf("the file has other bytes: %v", err)
	}
	o, err := s.Open(t.Context(), roots[0])
	wantBytes(t, o, err, data[0])
	if info, err := s.Stat(t.Context(), roots[0]); err != nil || info.Size != int64(len(data[0])) {
		t.Errorf("%+v, %v", info, err)
	}
	if has, err := s.Has(t.Context(), roots[:1]); err != nil || has[0] != b3.Complete {
		t.Errorf("%v, %v", has, err)
	}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Pin(hurried, roots[0], PinOptions{Label: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("it was pinned before it was stored: %v", err)
	}
	late, err := s.Open(t.Context(), roots[0])
	if err != nil {
		t.Fatal(err)
	}
	release()
	if err := s.Pin(t.Context(), roots[0], PinOptions{Label: "x"}); err != nil {
		t.Error(err)
	}
	awaitRestored(t, s)
	wantBytes(t, late, nil, data[0]) // from the file that was moved
	if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err = s.Open(t.Context(), roots[0])
	wantBytes(t, o, err, data[0])
	wantSound(t, s, 2)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, cfg, vfs.Default)
	wantSound(t, s, 2)
}

// TestRestoreChanged: a file that its new owner changes, or cuts, before it is copied back is not kept, and
// what reads it gets no wrong byte.
func TestRestoreChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *os.File) error{
		"a byte": func(f *os.File) error {
			_, err := f.WriteAt([]byte{1, 2, 3}, 2*b3.GroupSize)
			return err
		},
		"cut":   func(f *os.File) error { return f.Truncate(b3.GroupSize) },
		"empty": func(f *os.File) error { return f.Truncate(0) },
	} {
		for _, read := range []bool{false, true} {
			cfg := onDisk(t)
			cfg.Puts = 1
			s := openStore(t, cfg, vfs.Default)
			roots, _ := largeObjects(t, s, 2)
			release := holdPuts(t, s)
			out := moveAndRestore(t, s, roots[0])
			f, err := os.OpenFile(out, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(change(f), f.Close()); err != nil {
				t.Fatal(err)
			}
			if read {
				o, err := s.Open(t.Context(), roots[0])
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, o.Reader().Section(0, o.Size()))
				if err = o.Failed(err); status.Of(err) != status.NotFound {
					t.Errorf("%s: the read ended with %v", name, err)
				}
				_ = o.Close()
				if _, err := s.Open(t.Context(), roots[0]); status.Of(err) != status.NotFound {
					t.Errorf("%s: it was opened again: %v", name, err)
				}
			}
			release()
			awaitRestored(t, s)
			if _, err := s.Open(t.Context(), roots[0]); status.Of(err) != status.NotFound {
				t.Errorf("%s: opened: %v", name, err)
			}
			wantSound(t, s, 1)
		}
	}
}

// TestRestoreEnds: a deletion and the end of the store end a restore, and the next start finds a store that
// is whole.
func TestRestoreEnds(t *testing.T) {
	t.Parallel()
	cfg := onDisk(t)
	cfg.Puts = 1
	s, stop := startStore(t, cfg, vfs.Default)
	roots, data := largeObjects(t, s, 4)
	release := holdPuts(t, s)
	deleted := moveAndRestore(t, s, roots[0])
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Delete(hurried, roots[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("the deletion did not wait for the copy: %v", err)
	}
	release()
	if err := s.Delete(t.Context(), roots[0]); err != nil && status.Of(err) != status.NotFound {
		t.Error(err)
	}
	if got, err := os.ReadFile(deleted); err != nil || !bytes.Equal(got, data[0]) {
		t.Errorf("the file went with the object: %v", err)
	}
	awaitRestored(t, s)
	wantSound(t, s, 3)

	defer holdPuts(t, s)()
	for _, root := range roots[1:3] {
		moveAndRestore(t, s, root)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, cfg, vfs.Default)
	wantSound(t, s, 1)
	if tmp, err := os.ReadDir(filepath.Join(cfg.Dir, "tmp")); err != nil || len(tmp) != 0 {
		t.Errorf("%v is left: %v", tmp, err)
	}
}

// TestMoveAndRestoreRefused: an object that cannot be moved, or not now, stays as it is. If only the rename
// fails, it is restored.
func TestMoveAndRestoreRefused(t *testing.T) {
	t.Parallel()
	cfg := onDisk(t)
	cfg.Puts = 1
	s := openStore(t, cfg, vfs.Default)
	roots, data := largeObjects(t, s, moved.MaxObjects+2)
	errNo := errors.New("no")
	never := func(string) error {
		t.Error("move was called")
		return errNo
	}
	o := opened(t, s, roots[0])
	if err := s.MoveAndRestore(t.Context(), o, func(string) error { return errNo }, never); !errors.Is(err, errNo) {
		t.Errorf("a refused file: %v", err)
	}
	if err := s.Pin(t.Context(), roots[0], PinOptions{Label: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := s.MoveAndRestore(t.Context(), o, movable, never); status.Of(err) != status.Conflict {
		t.Errorf("a pinned object: %v", err)
	}
	release := holdPuts(t, s)
	again := opened(t, s, roots[1])
	err := s.MoveAndRestore(t.Context(), again, movable, func(string) error { return errNo })
	if !errors.Is(err, errNo) {
		t.Errorf("a failed rename: %v", err)
	}
	now, err := s.Open(t.Context(), roots[1])
	wantBytes(t, now, err, data[1])
	out := opened(t, s, roots[1])
	if err := s.MoveAndRestore(t.Context(), out, movable, never); status.Of(err) != status.Unsupported {
		t.Errorf("an object that is being restored: %v", err)
	}
	for _, root := range roots[2 : moved.MaxObjects+1] {
		moveAndRestore(t, s, root)
	}
	last := opened(t, s, roots[moved.MaxObjects+1])
	if err := s.MoveAndRestore(t.Context(), last, movable, never); status.Of(err) != status.Busy {
		t.Errorf("one too many: %v", err)
	}
	release()
	awaitRestored(t, s)
	wantSound(t, s, len(roots))
}
