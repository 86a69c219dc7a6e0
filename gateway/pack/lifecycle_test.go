package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/pack/tile"
	"allium/gateway/policy"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// citiesFile returns a small MBTiles pack.
func citiesFile(t *testing.T) []byte {
	t.Helper()
	p, err := os.ReadFile(filepath.Join("mbtiles", "testdata", "world_cities.mbtiles"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// openBelow returns how many files below dir this process has open. It skips the test where nobody says.
func openBelow(t *testing.T, dir string) (n int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists the open files of a process")
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// stuckObjects are objects of which one never arrives.
type stuckObjects struct{ size int64 }

func (o stuckObjects) OpenObject(_ context.Context, root b3.Root, _ bool) (b3.Content, error) {
	return stuckContent{bytesContent(make([]byte, o.size))}, nil
}

func (o stuckObjects) Keep(b3.Root) (release func()) { return func() {} }

type stuckContent struct{ bytesContent }

func (c stuckContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	if start == 0 && end <= 16 { // what tells the format
		_, err := w.Write([]byte("SQLite format 3\x00")[:end])
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestSlowPackHoldsUpNobody: while peers send packs slowly, a changed file is mounted.
func TestSlowPackHoldsUpNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "city.pmtiles")
	put := func(word string) {
		if err := os.WriteFile(file+".new", archiveOf(1, word), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	put("one")
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Dir, cfg.Packs = dir, map[string]Mount{"city": {File: "city.pmtiles"}}
		for i := range maxMounting + 1 {
			cfg.Packs[fmt.Sprint("slow", i)] = Mount{Key: b3.Sum([]byte{byte(i)}).String()}
		}
		s, err := New(cfg, Deps{Objects: stuckObjects{1 << 20}, Keys: &fakeKeys{}, Filter: policy.AllowAll{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx, func() {}) })
		defer running.Wait()
		defer cancel()
		synctest.Wait()
		first := s.List()[0]
		put("number two")
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if now := s.List()[0]; first.Version == "" || now.Version == first.Version {
			t.Errorf("%q is served after %q", now.Version, first.Version)
		}
	})
}

// TestMountAfterTheEnd: nothing is mounted once Run has ended, and no file stays open.
func TestMountAfterTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), archiveOf(1, "a"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Dir, cfg.Packs = dir, map[string]Mount{"a": {File: "a"}}
	s, err := New(cfg, Deps{Objects: &fakeObjects{}, Keys: &fakeKeys{}, Filter: policy.AllowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	m := newMount("b", Mount{File: "a"}) // its verification has begun before the end
	now, _, err := s.open.refresh(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, func() {}); err != nil {
		t.Fatal(err)
	}
	s.settle(m, now, true)
	if _, err := s.insert(m); status.Of(err) != status.NotReady {
		t.Errorf("insert: %v", err)
	}
	m.close()
	if _, err := s.Mount(t.Context(), "c", Mount{File: "a"}, nil); status.Of(err) != status.NotReady {
		t.Errorf("mount: %v", err)
	}
	if n := len(s.List()); n != 0 {
		t.Errorf("%d packs are mounted", n)
	}
	if n := openBelow(t, dir); n != 0 {
		t.Errorf("%d files are open", n)
	}
}

// TestMostPacks: one pack more than MaxPacks is refused before it is read, and a name that is mounted is not.
func TestMostPacks(t *testing.T) {
	t.Parallel()
	s := startSet(t, nil, map[string][]byte{"a": archiveOf(0, "a")})
	for i := range MaxPacks {
		if _, err := s.insert(newMount(fmt.Sprint("p", i), Mount{File: "a"})); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Mount(t.Context(), "more", Mount{File: "missing"}, nil); status.Of(err) != status.Busy {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.Mount(t.Context(), "p7", Mount{File: "a"}, nil); err != nil {
		t.Errorf("in place of another: %v", err)
	}
}

// TestFileOfTheSameSizeAndDate: a file that was renamed onto a pack is mounted, though its size and its date
// are those of the old one.
func TestFileOfTheSameSizeAndDate(t *testing.T) {
	t.Parallel()
	one, two := archiveOf(1, "one"), archiveOf(1, "two")
	if len(one) != len(two) {
		t.Fatal("the files differ in size")
	}
	s := startSet(t, map[string]Mount{"a": {File: "a"}}, map[string][]byte{"a": one})
	was, err := os.Stat(filepath.Join(s.dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "b", two)
	if err := os.Chtimes(filepath.Join(s.dir, "b"), time.Time{}, was.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "b"), filepath.Join(s.dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.read(t, "a", tile.Coord{}); err != nil || !strings.Contains(got, "two") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLogBesideAMountedDatabase: a write-ahead log that comes beside a mounted pack is told, and the pack
// stays as it was.
func TestLogBesideAMountedDatabase(t *testing.T) {
	t.Parallel()
	s := startSet(t, map[string]Mount{"c": {File: "c"}}, map[string][]byte{"c": citiesFile(t)})
	s.write(t, "c-wal", []byte("changes"))
	err := s.Reload(t.Context())
	if status.Of(err) != status.NotReady || !strings.Contains(err.Error(), "wal_checkpoint") {
		t.Errorf("with a log: %v", err)
	}
	if _, err := s.read(t, "c", tile.Coord{}); err != nil {
		t.Errorf("read: %v", err)
	}
	if err := os.Remove(filepath.Join(s.dir, "c-wal")); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Errorf("without it: %v", err)
	}
}

// TestReplacedMountIsNotMissed: who has found a mount that another one replaces gets the new one.
func TestReplacedMountIsNotMissed(t *testing.T) {
	t.Parallel()
	s := startSet(t, map[string]Mount{"a": {File: "a"}}, map[string][]byte{"a": archiveOf(1, "a")})
	old, err := s.find("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mount(t.Context(), "a", Mount{File: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := old.enter(); !errors.Is(err, errUnmounted) {
		t.Errorf("the old mount: %v", err)
	}
	_, now, err := s.Set.enter("a")
	if err != nil {
		t.Fatal(err)
	}
	now.leave()
}

// TestChurn mounts, replaces, reloads, lists, reads and unmounts at once. No reader meets a closed pack, and
// nothing stays open.
func TestChurn(t *testing.T) {
	t.Parallel()
	cities := citiesFile(t)
	one, two := archiveOf(3, "one"), archiveOf(3, "two")
	files := map[string][]byte{"a": one, "b": two, "c": cities}
	s := startSet(t, map[string]Mount{"a": {File: "a"}, "c": {File: "c"}}, files)
	s.objects.here[b3.Sum(one)], s.objects.here[b3.Sum(two)], s.objects.away[b3.Sum(cities)] = one, two, cities
	s.keys.set(b3.Sum(one))
	if _, err := s.Mount(t.Context(), "n", Mount{Key: "maps.zone"}, nil); err != nil {
		t.Fatal(err)
	}
	const rounds = 60
	var all sync.WaitGroup
	repeat := func(f func(i int)) {
		all.Go(func() {
			for i := range rounds {
				f(i)
			}
		})
	}
	for _, of := range []Mount{{File: "a"}, {File: "b"}, {Key: b3.Sum(one).String()}, {Key: b3.Sum(cities).String()}} {
		repeat(func(int) {
			if _, err := s.Mount(t.Context(), "x", of, nil); err != nil {
				t.Errorf("mount %s: %v", of, err)
			}
		})
	}
	repeat(func(int) { _ = s.Unmount("x") })
	repeat(func(i int) {
		s.keys.set(b3.Sum([][]byte{one, two}[i%2]))
		if err := s.Reload(t.Context()); err != nil {
			t.Errorf("reload: %v", err)
		}
	})
	repeat(func(i int) { s.write(t, "a", [][]byte{one, two, bytes.Clone(one)}[i%3]) })
	repeat(func(int) { s.List(); s.Shut() })
	for range 2 {
		repeat(func(i int) {
			for _, name := range []string{"a", "c", "n", "x"} {
				_, now, err := s.Set.enter(name)
				if err != nil {
					if name != "x" || status.Of(err) != status.NotFound {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				at, err := now.archive.Find(t.Context(), tile.Coord{})
				if err == nil {
					_, err = now.archive.Read(t.Context(), nil, at)
				}
				if err != nil {
					t.Errorf("%s, round %d: %v", name, i, err)
				}
				now.leave()
			}
		})
	}
	all.Wait()
	for _, m := range s.List() {
		if err := s.Unmount(m.Name); err != nil {
			t.Error(err)
		}
	}
	s.objects.mu.Lock()
	defer s.objects.mu.Unlock()
	if s.objects.kept != 0 {
		t.Errorf("%d objects are kept", s.objects.kept)
	}
	if used := s.open.directories.Used(); used != 0 {
		t.Errorf("%d bytes of directories are kept", used)
	}
	if n := openBelow(t, s.dir); n != 0 {
		t.Errorf("%d files are open", n)
	}
}
