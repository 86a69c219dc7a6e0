package health_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/node/health"
	"allium/store"
	"allium/store/storetest"
)

// start opens a store in files below dir.
func start(t *testing.T, dir string) (*store.Store, func() error) {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.ScrubRate = dir, 0
	return storetest.Start(t, cfg, store.Deps{})
}

// put stores an object of so many bytes.
func put(t *testing.T, st *store.Store, n, size int) {
	t.Helper()
	p := bytes.Repeat(binary.BigEndian.AppendUint64(nil, uint64(n)), size/8) //nolint:gosec // it is small
	if _, err := st.PutBytes(t.Context(), p, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestSample: a sample of a sound store finds nothing and stays within its bounds; one of a store with a damaged
// disk finds the damage.
func TestSample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, stop := start(t, dir)
	if s, err := health.Sample(t.Context(), st); err != nil || s.Objects != 0 {
		t.Fatalf("an empty store: %+v, %v", s, err)
	}
	for n := range 400 {
		put(t, st, n, 64)
	}
	for n := range 4 {
		put(t, st, 1000+n, 3<<20)
	}
	s, err := health.Sample(t.Context(), st)
	if err != nil || s.Damaged != 0 || s.Objects < 64 || s.Objects > 256 || s.Bytes > 64<<20 {
		t.Errorf("a sound store: %+v, %v", s, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := health.Sample(ended, st); err != nil {
		t.Errorf("an ended context: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	zeroed := 0
	err = filepath.WalkDir(filepath.Join(dir, "obj"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, ".ob") {
			return err
		}
		zeroed++
		return os.WriteFile(name, make([]byte, 3<<20), 0o600)
	})
	if err != nil || zeroed != 4 {
		t.Fatalf("%d objects were damaged, %v", zeroed, err)
	}
	st, stop = start(t, dir)
	found := 0
	for range 50 { // a sample has most of the objects, but not surely those
		s, err := health.Sample(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		if found += s.Damaged; found > 0 {
			break
		}
	}
	if found == 0 {
		t.Error("no sample found the damage")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
