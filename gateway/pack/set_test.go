package pack

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/pack/packtest"
	"allium/gateway/pack/tile"
	"allium/gateway/policy"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// tilesOf returns tiles down to a zoom, whose texts contain word.
func tilesOf(zoom uint8, word string) packtest.Tiles {
	return packtest.Pyramid(0, zoom, nil, func(c tile.Coord) []byte {
		return packtest.Content(tile.PNG, word+c.String())
	})
}

// archiveOf returns a PMTiles archive with such tiles.
func archiveOf(zoom uint8, word string) []byte {
	return packtest.PMTiles(tilesOf(zoom, word), packtest.Options{Type: tile.PNG, Leaf: 8, Gzip: true})
}

// fakeObjects hold objects, of which some are with peers. They count what they open.
type fakeObjects struct {
	mu     sync.Mutex
	here   map[b3.Root][]byte
	away   map[b3.Root][]byte
	opened int // with peers
	kept   int
}

func (f *fakeObjects) OpenObject(_ context.Context, root b3.Root, local bool) (b3.Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, ok := f.here[root]; ok {
		return bytesContent(p), nil
	}
	if p, ok := f.away[root]; ok && !local {
		f.opened++
		return bytesContent(p), nil
	}
	return nil, status.Errorf(status.NotFound, "nobody has %s", root)
}

func (f *fakeObjects) Keep(b3.Root) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.kept--
	}
}

type bytesContent []byte

func (c bytesContent) Size() int64  { return int64(len(c)) }
func (c bytesContent) Close() error { return nil }
func (c bytesContent) Copy(_ context.Context, w io.Writer, start, end int64) error {
	_, err := w.Write(c[start:end])
	return err
}

// fakeKeys know addresses, and one name.
type fakeKeys struct {
	mu   sync.Mutex
	name b3.Root
}

func (k *fakeKeys) FindObject(_ context.Context, key string) (Found, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key == "maps.zone" {
		return Found{Root: k.name, Named: true, TTL: time.Hour}, nil
	}
	root, err := b3.Parse(key)
	return Found{Root: root}, err
}

func (k *fakeKeys) set(root b3.Root) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.name = root
}

// testSet is a Set that runs, with its directory.
type testSet struct {
	*Set
	dir     string
	objects *fakeObjects
	keys    *fakeKeys
}

// startSet runs a Set with these packs, of which files are below its directory.
func startSet(t *testing.T, packs map[string]Mount, files map[string][]byte) *testSet {
	t.Helper()
	s := &testSet{dir: t.TempDir(), objects: &fakeObjects{here: map[b3.Root][]byte{}, away: map[b3.Root][]byte{}},
		keys: &fakeKeys{}}
	for name, p := range files {
		s.write(t, name, p)
	}
	cfg := DefaultConfig()
	cfg.Dir, cfg.Packs = s.dir, packs
	var err error
	s.Set, err = New(cfg, Deps{Objects: s.objects, Keys: s.keys, Filter: policy.AllowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, s.Run)
	testkit.Eventually(t, "all packs have been looked at", func() bool {
		for _, m := range s.all() {
			if !m.serves() && m.failure() == nil {
				return false
			}
		}
		return true
	})
	return s
}

// write replaces a file of the directory in one step, with a date of its own.
func (s *testSet) write(t *testing.T, name string, p []byte) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path+".new", p, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// read returns the stored bytes of a tile of a mounted pack.
func (s *testSet) read(t *testing.T, name string, c tile.Coord) (string, error) {
	t.Helper()
	m, err := s.find(name)
	if err != nil {
		return "", err
	}
	now, err := m.enter()
	if err != nil {
		return "", err
	}
	defer now.leave()
	at, err := now.archive.Find(t.Context(), c)
	if err != nil {
		return "", err
	}
	p, err := now.archive.Read(t.Context(), nil, at)
	return string(p), err
}

// TestFileIsReplaced: a new file is mounted, and a bad one leaves the old one.
func TestFileIsReplaced(t *testing.T) {
	t.Parallel()
	s := startSet(t, map[string]Mount{"city": {File: "city.pmtiles"}},
		map[string][]byte{"city.pmtiles": archiveOf(3, "one ")})
	at := tile.Coord{Z: 3, X: 5, Y: 2}
	want := func(word string) {
		t.Helper()
		if got, err := s.read(t, "city", at); err != nil || !strings.Contains(got, word) {
			t.Errorf("%q, %v; want %q", got, err, word)
		}
	}
	want("one ")
	first := s.List()[0]
	s.write(t, "city.pmtiles", archiveOf(3, "second "))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("second ")
	if now := s.List()[0]; now.Version == first.Version || now.Since.Before(first.Since) {
		t.Errorf("%+v after %+v", now, first)
	}
	s.write(t, "city.pmtiles", []byte("no pack at all, but longer than its magic"))
	if err := s.Reload(t.Context()); status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), "city") {
		t.Errorf("a bad file: %v", err)
	}
	want("second ")
	if have, need, _ := s.Shut(); have != 1 || need != 1 {
		t.Errorf("%d of %d are served", have, need)
	}
	if m := s.List()[0]; m.Err == nil || m.Info == nil {
		t.Errorf("%+v", m)
	}
	s.write(t, "city.pmtiles", archiveOf(3, "third one "))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("third one ")
}

// TestFileChangedInPlace: a state whose file was written in place is not current.
func TestFileChangedInPlace(t *testing.T) {
	t.Parallel()
	s := startSet(t, map[string]Mount{"city": {File: "city.pmtiles"}},
		map[string][]byte{"city.pmtiles": archiveOf(2, "a")})
	m, err := s.find("city")
	if err != nil {
		t.Fatal(err)
	}
	now, err := m.enter()
	if err != nil {
		t.Fatal(err)
	}
	defer now.leave()
	if now.file.changed() {
		t.Error("the file counts as changed")
	}
	if err := os.WriteFile(filepath.Join(s.dir, "city.pmtiles"), archiveOf(2, "other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !now.file.changed() {
		t.Error("nobody sees that the file was written in place")
	}
}

// TestBadPacks: what is no pack is not served, and Shut says which and why.
func TestBadPacks(t *testing.T) {
	t.Parallel()
	good := archiveOf(2, "x")
	wal := "SQLite format 3\x00"
	for name, c := range map[string]struct {
		file []byte
		of   Mount
		want status.Outcome
	}{
		"empty":     {[]byte{}, Mount{}, status.Corrupt},
		"text":      {[]byte("hello, world, this is text"), Mount{}, status.Corrupt},
		"cut":       {good[:len(good)/2], Mount{}, status.Corrupt},
		"header":    {good[:100], Mount{}, status.Corrupt},
		"missing":   {nil, Mount{}, status.NotFound},
		"nodb":      {[]byte(wal + strings.Repeat("x", 500)), Mount{}, status.Corrupt},
		"nobody":    {nil, Mount{Key: b3.Sum([]byte("nobody")).String()}, status.NotFound},
		"directory": {nil, Mount{File: "."}, status.BadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string][]byte{}
			if c.file != nil {
				files["bad"] = c.file
			}
			if c.of == (Mount{}) {
				c.of.File = "bad"
			}
			s := startSet(t, nil, files)
			if _, err := s.Mount(t.Context(), "bad", c.of, nil); status.Of(err) != c.want {
				t.Errorf("mount: %v, want %s", err, c.want)
			}
			if n := len(s.List()); n != 0 {
				t.Errorf("%d packs are mounted", n)
			}
			if c.want == status.BadRequest {
				return
			}
			s = startSet(t, map[string]Mount{"bad": c.of}, files)
			have, need, why := s.Shut()
			if have != 0 || need != 1 || !strings.Contains(why, "bad") {
				t.Errorf("%d of %d: %q", have, need, why)
			}
			if _, err := s.read(t, "bad", tile.Coord{}); status.Of(err) != status.NotReady {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// TestNameIsFollowed: a new record mounts the new pack, and readers of the old one finish.
func TestNameIsFollowed(t *testing.T) {
	t.Parallel()
	one, two := archiveOf(2, "one"), archiveOf(2, "two")
	s := startSet(t, nil, nil)
	s.objects.here[b3.Sum(one)], s.objects.away[b3.Sum(two)] = one, two
	s.keys.set(b3.Sum(one))
	if _, err := s.Mount(t.Context(), "world", Mount{Key: "maps.zone"}, nil); err != nil {
		t.Fatal(err)
	}
	m, err := s.find("world")
	if err != nil {
		t.Fatal(err)
	}
	old, err := m.enter()
	if err != nil {
		t.Fatal(err)
	}
	s.keys.set(b3.Sum(two))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.read(t, "world", tile.Coord{Z: 1}); err != nil || !strings.Contains(got, "two") {
		t.Errorf("%q, %v", got, err)
	}
	at, err := old.archive.Find(t.Context(), tile.Coord{Z: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := old.archive.Read(t.Context(), nil, at); err != nil || !bytes.Contains(p, []byte("one")) {
		t.Errorf("the old state: %q, %v", p, err)
	}
	old.leave()
	if old.enter() {
		t.Error("the old state is still open")
	}
	if s.objects.opened == 0 {
		t.Error("nothing came from peers")
	}
}

// TestUnmount: a pack is gone at once for new requests, and closed after the last one.
func TestUnmount(t *testing.T) {
	t.Parallel()
	s := startSet(t, map[string]Mount{"a": {File: "a"}}, map[string][]byte{"a": archiveOf(1, "a")})
	m, err := s.find("a")
	if err != nil {
		t.Fatal(err)
	}
	now, err := m.enter()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unmount("a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Unmount("a"); status.Of(err) != status.NotFound {
		t.Errorf("twice: %v", err)
	}
	if _, err := now.archive.Find(t.Context(), tile.Coord{}); err != nil {
		t.Errorf("a reader: %v", err)
	}
	now.leave()
	if _, err := now.file.file.Stat(); err == nil {
		t.Error("the file is still open")
	}
	if _, _, why := s.Shut(); why != "" {
		t.Errorf("still missed: %s", why)
	}
}

// TestInspect: a report has the counts, and nothing is mounted.
func TestInspect(t *testing.T) {
	t.Parallel()
	s := startSet(t, nil, map[string][]byte{"a": archiveOf(3, "a")})
	p := archiveOf(3, "b")
	s.objects.here[b3.Sum(p)] = p
	r, err := s.Inspect(t.Context(), b3.Sum(p).String(), nil)
	if err != nil || r.Info.Tiles != 85 || r.Info.MaxZoom != 3 || r.Root != b3.Sum(p) || r.Size != int64(len(p)) {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = InspectFile(t.Context(), filepath.Join(s.dir, "a"))
	if err != nil || r.Info.Tiles != 85 || !r.Root.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	if len(s.List()) != 0 {
		t.Error("an inspected pack is mounted")
	}
}

// TestDirectoryIsLeft: no path and no link leads out of the directory of the packs.
func TestDirectoryIsLeft(t *testing.T) {
	t.Parallel()
	s := startSet(t, nil, nil)
	outside := filepath.Join(t.TempDir(), "out.pmtiles")
	if err := os.WriteFile(outside, archiveOf(1, "a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "../" + filepath.Base(filepath.Dir(outside)) + "/out.pmtiles", outside} {
		if _, err := s.Mount(t.Context(), "a", Mount{File: name}, nil); err == nil {
			t.Errorf("%s is mounted", name)
		}
	}
}

// TestKeptDatabase: an MBTiles pack of an address is fetched whole, and not evicted while it is mounted.
func TestKeptDatabase(t *testing.T) {
	t.Parallel()
	p, err := os.ReadFile(filepath.Join("mbtiles", "testdata", "world_cities.mbtiles"))
	if err != nil {
		t.Fatal(err)
	}
	s := startSet(t, nil, nil)
	s.objects.away[b3.Sum(p)] = p
	var seen int64
	if _, err := s.Mount(t.Context(), "cities", Mount{Key: b3.Sum(p).String()}, func(done, total int64) {
		if total != int64(len(p)) || done < seen {
			t.Errorf("%d of %d after %d", done, total, seen)
		}
		seen = done
	}); err != nil {
		t.Fatal(err)
	}
	if seen != int64(len(p)) || s.objects.kept != 1 {
		t.Errorf("%d bytes were fetched, and %d objects are kept", seen, s.objects.kept)
	}
	if _, err := s.read(t, "cities", tile.Coord{}); err != nil {
		t.Error(err)
	}
	if err := s.Unmount("cities"); err != nil || s.objects.kept != 0 {
		t.Errorf("%v, and %d objects are kept", err, s.objects.kept)
	}
}
