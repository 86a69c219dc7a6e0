package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// onDisk configures a store in a new directory.
func onDisk(t *testing.T) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Dir, cfg.ReserveBytes = t.TempDir(), 0
	return cfg
}

// opened opens an object until the test ends.
func opened(t *testing.T, s *Store, root b3.Root) *Object {
	t.Helper()
	o, err := s.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// TestMoveOut takes an object's file out of a store: the file has the object's bytes and nothing else,
// the object is gone, what is open can be read on, and others find nothing while the file is moved.
func TestMoveOut(t *testing.T) {
	t.Parallel()
	cfg := onDisk(t)
	s, stop := startStore(t, cfg, vfs.Default)
	roots, data := largeObjects(t, s, 2)
	o := opened(t, s, roots[0])
	out := filepath.Join(t.TempDir(), "out")
	err := s.MoveOut(t.Context(), o, func(path string) error {
		err := os.Rename(path, out)
		if _, openErr := s.Open(t.Context(), roots[0]); status.Of(openErr) != status.NotFound {
			t.Errorf("opened while it was moved: %v", openErr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, data[0]) {
		t.Errorf("the file has other bytes: %v", err)
	}
	got := make([]byte, 100)
	if _, err := o.Reader().ReadAt(got, b3.GroupSize); err != nil || !bytes.Equal(got, data[0][b3.GroupSize:][:100]) {
		t.Errorf("what was open cannot be read on: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, cfg, vfs.Default)
	if _, err := s.Open(t.Context(), roots[0]); status.Of(err) != status.NotFound {
		t.Errorf("it is still there: %v", err)
	}
	if es := listAll(t, s); len(es) != 1 || es[0].Root != roots[1] {
		t.Errorf("the store has %v", es)
	}
	if found := s.backend.Damages().All(); len(found) != 0 {
		t.Errorf("%v were found", found)
	}
}

// TestMoveOutRefused: an object that is pinned, in use, damaged, small, in RAM or that the caller
// leaves stays as it is.
func TestMoveOutRefused(t *testing.T) {
	t.Parallel()
	errLeft := errors.New("left")
	never := func(string) error {
		t.Error("move was called")
		return errLeft
	}
	s := openStore(t, onDisk(t), vfs.Default)
	roots, data := largeObjects(t, s, 4)
	for name, c := range map[string]struct {
		prepare func(root b3.Root) error
		move    func(string) error
		want    status.Outcome
	}{
		"left": {move: func(string) error { return errLeft }},
		"pinned": {func(r b3.Root) error { return s.Pin(t.Context(), r, PinOptions{Label: "x"}) }, never,
			status.Conflict},
		"in use": {func(r b3.Root) error { opened(t, s, r); return nil }, never, status.Conflict},
		"damaged": {func(r b3.Root) error {
			e, _, err := s.backend.Get(r)
			return errors.Join(err, s.backend.Mark(e, true))
		}, never, status.Corrupt},
	} {
		root := roots[0]
		roots = roots[1:]
		o := opened(t, s, root)
		if c.prepare != nil {
			if err := c.prepare(root); err != nil {
				t.Fatal(err)
			}
		}
		err := s.MoveOut(t.Context(), o, c.move)
		if c.want == 0 && !errors.Is(err, errLeft) || c.want != 0 && status.Of(err) != c.want {
			t.Errorf("%s: got %v", name, err)
		}
		if err := wantWhole(t.Context(), o, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok, err := s.backend.Get(root); !ok || err != nil {
			t.Errorf("%s: the object is gone: %v", name, err)
		}
	}
	small, err := s.PutBytes(t.Context(), []byte("small"), PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MoveOut(t.Context(), opened(t, s, small.Root), never); status.Of(err) != status.Unsupported {
		t.Errorf("a small object: %v", err)
	}
	cfg := DefaultConfig()
	cfg.Backend = BackendMemory
	m := openStore(t, cfg, nil)
	roots, _ = largeObjects(t, m, 1)
	if err := m.MoveOut(t.Context(), opened(t, m, roots[0]), never); status.Of(err) != status.Unsupported {
		t.Errorf("an object in RAM: %v", err)
	}
}

// wantWhole checks that an open object can be read and is one of all.
func wantWhole(_ context.Context, o *Object, all [][]byte) error {
	got := make([]byte, o.Size())
	if _, err := o.Reader().ReadAt(got, 0); err != nil {
		return err
	}
	for _, p := range all {
		if bytes.Equal(got, p) {
			return nil
		}
	}
	return errors.New("the object has other bytes")
}
