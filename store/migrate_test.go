package store_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// archived unpacks a store that an earlier version wrote.
func archived(t *testing.T, name string) *vfs.MemFS {
	t.Helper()
	z, err := zip.OpenReader(path.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	disk := vfs.NewCrashableMem()
	if err := disk.MkdirAll("/store/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	dirs := []string{"/store/part"}
	for i := range 256 {
		dirs = append(dirs, fmt.Sprintf("/store/obj/%02x", i))
	}
	for _, dir := range dirs {
		if err := disk.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range z.File {
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		p, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		full := path.Join("/store", file.Name)
		if err := disk.MkdirAll(path.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := disk.Create(full, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	for _, dir := range append(dirs, "/", "/store", "/store/index", "/store/seg", "/store/obj", "/store/tmp") {
		d, err := disk.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	return disk
}

// checkArchived fails unless s holds what the archives do: eight objects of
// repeated letters, of which d was deleted and g is damaged, and two pins.
func checkArchived(t *testing.T, s *store.Store) error {
	t.Helper()
	for i, size := range []int{0, 1, 700, 3000, b3.GroupSize, b3.GroupSize + 1, 2*b3.GroupSize + 77, 500} {
		p := bytes.Repeat([]byte{byte('a' + i)}, size)
		want := status.OK
		switch i {
		case 3:
			want = status.NotFound
		case 6:
			want = status.Corrupt
		}
		if got := status.Of(s.Verify(t.Context(), b3.Sum(p))); got != want {
			return fmt.Errorf("object %d: %s, want %s", i, got, want)
		}
		if want == status.OK {
			storetest.Holds(t, s, p)
		}
	}
	var pins []string
	for p, err := range s.Pins(t.Context()) {
		if err != nil {
			return err
		}
		if p.Created.Year() < 2026 {
			return fmt.Errorf("a pin was made in %s", p.Created)
		}
		pins = append(pins, fmt.Sprintf("%s %q %t", p.Root.Hex()[:2], p.Label, p.Recursive))
	}
	if got, want := fmt.Sprint(pins), fmt.Sprintf("[%s \"site\" false ed \"\" true]", b3.Sum(bytes.Repeat([]byte{'c'}, 700)).Hex()[:2]); got != want {
		return fmt.Errorf("pins are %s, want %s", got, want)
	}
	if st := s.Stats(); st.Objects != 7 || st.Corrupt != 1 {
		return fmt.Errorf("stats say %+v", st)
	}
	return nil
}

// TestFormat1 brings stores of format 1 forward, closed in order and not, with a
// crash before every operation on the way.
func TestFormat1(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"format1-closed.zip", "format1-crashed.zip"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := archived(t, name)
			var mu sync.Mutex
			type crash struct {
				fs *vfs.MemFS
				at string
			}
			var crashes []crash
			rng := rand.New(rand.NewPCG(1, 2))
			injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
					mu.Lock()
					defer mu.Unlock()
					for _, percent := range []int{0, 50} {
						if percent > 0 && strings.HasPrefix(op.Path, "/store/index") {
							// Pebble relies on names made in one directory becoming
							// durable in order; this file system does not keep it.
							continue
						}
						at := fmt.Sprintf("op %d of %s, %d %% unsynced", op.Kind, op.Path, percent)
						crashes = append(crashes, crash{disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), at})
					}
				}
				return nil
			})
			s, stop := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, injector)})
			if err := checkArchived(t, s); err != nil {
				t.Error(err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got := read(t, disk, "/store/FORMAT"); string(got) != "allium store\nformat 2\n" {
				t.Errorf("FORMAT is %q", got)
			}
			if len(crashes) < 20 {
				t.Errorf("only %d crashes", len(crashes))
			}
			for _, c := range append(crashes, crash{disk, "the end"}) {
				s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: c.fs})
				if err != nil {
					t.Errorf("crash before %s: %v", c.at, err)
					continue
				}
				if err := checkArchived(t, s); err != nil {
					t.Errorf("crash before %s: %v", c.at, err)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
