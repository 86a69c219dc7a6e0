package store_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
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
		write(t, disk, full, p)
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
	if got, want := fmt.Sprint(pins), fmt.Sprintf("[%s \"site\" false ed \"\" true]",
		b3.Sum(bytes.Repeat([]byte{'c'}, 700)).Hex()[:2]); got != want {
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
	comesForward(t, checkArchived, "format1-closed.zip", "format1-crashed.zip")
}

// TestFormat2 brings stores of format 2 forward in the same way. It kept what it
// knew of downloads and uploads in the index.
func TestFormat2(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, s *store.Store) error {
		return checkArchived2(t, s, "a52890a5371f8e7daff4e3b203f7885b", "c64c8c1b94178c4fbfd7f090bf29e348",
			"a5b7fd7d4697a7c7fd6d9a237a11792a")
	}
	comesForward(t, check, "format2-closed.zip", "format2-crashed.zip")
}

// TestFormat3 brings stores of format 3 forward in the same way. Its pins had no targets.
func TestFormat3(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, s *store.Store) error {
		if err := checkArchived2(t, s, "f293c8c5ad123437495e435a7b47cdd8", "be24a9bbf90553330bec30e9848edad8",
			"e18e69e243a2b78d7152296054a2e1a0"); err != nil {
			return err
		}
		for p, err := range s.Pins(t.Context()) {
			if err != nil || p.Target.Seq > 0 {
				return fmt.Errorf("a pin has the target %+v: %w", p.Target, err)
			}
			target := meta.Target{Copies: 3, Seq: 1}
			if _, err := s.SetTarget(t.Context(), p.Root, p.Label, target); err != nil {
				return err
			}
		}
		return nil
	}
	comesForward(t, check, "format3-closed.zip", "format3-crashed.zip")
}

// TestFormat4 opens stores that this version wrote, closed in order and not: nothing is lost, and
// nothing is taken for damage.
func TestFormat4(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"format4-closed.zip", "format4-crashed.zip"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := archived(t, name)
			// The uploads of the archives are older than an upload may become: the clock is not trusted.
			s, _ := storetest.Start(t, tiny(), store.Deps{FS: disk, MayExpire: func() bool { return false }})
			if err := checkArchived2(t, s, "f293c8c5ad123437495e435a7b47cdd8", "be24a9bbf90553330bec30e9848edad8",
				"e18e69e243a2b78d7152296054a2e1a0"); err != nil {
				t.Error(err)
			}
			nothingAside(t, s)
			want := []string{"rf 3 1001", "ec 6+3 1002", "released", "none 0"} // the last one is that of an upload
			got := slices.Sorted(maps.Values(pinStates(t, s)))
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the targets are %q, want %q", got, want)
			}
		})
	}
}

// TestFormat2WithoutIndex: what format 2 knew of downloads and uploads is lost with
// its index. Their bytes are not: they are put aside, and an operator is told.
func TestFormat2WithoutIndex(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"started", "rebuilt", "a start, then rebuilt"} {
		disk := archived(t, "format2-crashed.zip")
		if how != "rebuilt" {
			if err := disk.RemoveAll("/store/index"); err != nil {
				t.Fatal(err)
			}
		}
		if how == "a start, then rebuilt" { // which a crash ended when FORMAT was written
			write(t, disk, "/store/FORMAT", []byte("allium store\nformat 3\n"))
			write(t, disk, "/store/part/unnoted", nil)
		}
		if how != "started" {
			if _, err := store.Rebuild(t.Context(), tiny(), store.Deps{FS: disk}, nil); err != nil {
				t.Fatal(err)
			}
		}
		s, _ := storetest.Start(t, tiny(), store.Deps{FS: disk})
		u := bytes.Repeat([]byte{'u'}, 3*group/2)
		if got := read(t, disk, "/store/quarantine/a52890a5371f8e7daff4e3b203f7885b.1"); !bytes.Equal(got, u) {
			t.Errorf("%s: the bytes of an upload are gone: %d are left", how, len(got))
		}
		if open, unknown := s.OpenDamage(); open == 0 || unknown > 0 {
			t.Errorf("%s: %d are open, %d unknown: %+v", how, open, unknown, s.Damage())
		}
		for _, c := range []byte{'b', 'c', 'f'} {
			storetest.Holds(t, s, bytes.Repeat([]byte{c}, map[byte]int{'b': 1, 'c': 700, 'f': b3.GroupSize + 1}[c]))
		}
	}
}

// nothingAside fails the test if s has put a file into quarantine.
func nothingAside(t *testing.T, s *store.Store) {
	t.Helper()
	if n := s.Stats().Usage.QuarantineFiles; n > 0 {
		t.Errorf("%d files were put aside", n)
	}
}

// checkArchived2 fails unless s holds what the archives of format 2 do: objects
// of repeated letters, of which d was deleted, and pins; a download of p, of
// which groups 0, 1 and 4 are here, and one of q of which nothing was noted; an
// upload of u at its half, one of nothing, and one of w that is whole, with these
// IDs.
func checkArchived2(t *testing.T, s *store.Store, half, empty, whole string) error {
	t.Helper()
	letters := func(c byte, n int) []byte { return bytes.Repeat([]byte{c}, n) }
	for i, size := range []int{0, 1, 700, 3000, b3.GroupSize, b3.GroupSize + 1, 2*b3.GroupSize + 77, 500} {
		p := letters(byte('a'+i), size)
		if i == 3 {
			if err := s.Verify(t.Context(), b3.Sum(p)); status.Of(err) != status.NotFound {
				return fmt.Errorf("what was deleted: %w", err)
			}
			continue
		}
		storetest.Holds(t, s, p)
	}
	pins := 0
	for _, err := range s.Pins(t.Context()) {
		if err != nil {
			return err
		}
		pins++
	}
	p, u, w := letters('p', 5*group-100), letters('u', 3*group), letters('w', group+5)
	storetest.Holds(t, s, w)
	if st := s.Stats(); pins != 2 || st.Objects != 8 || st.PartialObjects != 1 || st.PartialBytes != 3*group-100 ||
		st.Uploads.Open != 2 {
		return fmt.Errorf("%d pins, stats say %+v", pins, st)
	}
	if held, err := readPart(t.Context(), s, p); err != nil || held != 3*group-100 {
		return fmt.Errorf("%d bytes are left of the download: %w", held, err)
	}
	if all := s.Damage(); len(all) > 0 {
		return fmt.Errorf("what an earlier version left is taken for damage: %+v", all)
	}
	for id, want := range map[string]resumable.Info{
		half:  {Offset: 3 * group / 2, UploadOptions: meta.UploadOptions{Length: 3 * group, Label: "site", Pin: true}},
		empty: {UploadOptions: meta.UploadOptions{Length: 1000}},
		whole: {
			Offset: group + 5, UploadOptions: meta.UploadOptions{Length: group + 5, Expect: b3.Sum(w)},
			Root: b3.Sum(w), New: true,
		},
	} {
		now, err := s.Uploads().Get(t.Context(), id)
		want.ID, want.Expires = id, now.Expires
		if err != nil || now != want {
			return fmt.Errorf("upload %+v is %+v: %w", want, now, err)
		}
		if now.Offset > 0 && now.Root.IsZero() {
			now, err = s.Uploads().Append(t.Context(), resumable.Capability{}, id, now.Offset,
				bytes.NewReader(u[now.Offset:]))
			if err != nil || now.Root != b3.Sum(u) {
				return fmt.Errorf("an upload does not go on: %+v: %w", now, err)
			}
		}
	}
	return complete(t, s, p)
}

// comesForward opens each archive, and a clone of it after each write of the opening. The
// uploads of the archives are older than an upload may become: the clock is not trusted.
func comesForward(t *testing.T, check func(*testing.T, *store.Store) error, names ...string) {
	t.Helper()
	never := func() bool { return false }
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := archived(t, name)
			var mu sync.Mutex
			type crash struct {
				fs      *vfs.MemFS
				at      string
				percent int // of the unsynced data that is left
			}
			var crashes []crash
			opened := false
			rng := rand.New(rand.NewPCG(1, 2))
			injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
					mu.Lock()
					defer mu.Unlock()
					if opened {
						return nil
					}
					for _, percent := range []int{0, 50} {
						if percent > 0 && strings.HasPrefix(op.Path, "/store/index") {
							// Pebble relies on names made in one directory becoming
							// durable in order; this file system does not keep it.
							continue
						}
						at := fmt.Sprintf("op %d of %s, %d %% unsynced", op.Kind, op.Path, percent)
						fs := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
						crashes = append(crashes, crash{fs, at, percent})
					}
				}
				return nil
			})
			s, stop := storetest.Start(t, tiny(), store.Deps{
				FS: errorfs.Wrap(disk, injector), MayExpire: never,
			})
			mu.Lock()
			opened = true
			crashes = append(crashes, crash{disk.CrashClone(vfs.CrashCloneCfg{}), "the end", 0})
			mu.Unlock()
			if err := check(t, s); err != nil {
				t.Error(err)
			}
			nothingAside(t, s)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got := read(t, disk, "/store/FORMAT"); string(got) != "allium store\nformat 4\n" {
				t.Errorf("FORMAT is %q", got)
			}
			if len(crashes) < 20 {
				t.Errorf("only %d crashes", len(crashes))
			}
			for i, c := range crashes {
				if (len(crashes)-1-i)%every(1) != 0 {
					continue
				}
				s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: c.fs, MayExpire: never})
				if err != nil {
					t.Errorf("crash before %s: %v", c.at, err)
					continue
				}
				if err := check(t, s); err != nil {
					t.Errorf("crash before %s: %v", c.at, err)
				}
				if c.percent == 0 { // else a segment that was just begun may have lost its header
					nothingAside(t, s)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
