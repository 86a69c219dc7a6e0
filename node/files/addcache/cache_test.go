//go:build linux || darwin

package addcache

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"allium/protocols/b3"
)

// later is a clock by which nothing was changed just now.
func later() time.Time { return time.Now().Add(time.Hour) }

func openAt(t *testing.T, dir string, pages uint64, now func() time.Time) *Cache {
	t.Helper()
	c, err := open(dir, min(pages, 2), pages, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func closeCache(t *testing.T, c *Cache) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, content string) fs.FileInfo {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return stat(t, name)
}

func stat(t *testing.T, name string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func stampOf(info fs.FileInfo) Stamp {
	s, _ := StampOf(info)
	return s
}

// TestStates: an entry counts for one state of one file.
func TestStates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	root := b3.Sum([]byte("one"))
	for what, c := range map[string]struct {
		change func(was fs.FileInfo)
		hit    bool
	}{
		"nothing": {func(fs.FileInfo) {}, true},
		"its name": {func(fs.FileInfo) { // the change time moves
			must(t, os.Rename(name, name+"2"))
			must(t, os.Rename(name+"2", name))
		}, false},
		"mode":    {func(fs.FileInfo) { must(t, os.Chmod(name, 0o755)) }, false},
		"content": {func(fs.FileInfo) { write(t, name, "two") }, false},
		"content, with its time set back": {func(was fs.FileInfo) {
			write(t, name, "two")
			must(t, os.Chtimes(name, was.ModTime(), was.ModTime()))
		}, false},
		"another file of the same size and time": {func(was fs.FileInfo) {
			write(t, name+".new", "two")
			must(t, os.Chtimes(name+".new", was.ModTime(), was.ModTime()))
			must(t, os.Rename(name+".new", name))
		}, false},
		"a link": {func(fs.FileInfo) { must(t, os.Remove(name)); must(t, os.Symlink("f", name)) }, false},
	} {
		must(t, os.RemoveAll(name))
		info := write(t, name, "one")
		cache := openAt(t, filepath.Join(dir, "cache"), 10, later)
		record(cache, info, info, root)
		closeCache(t, cache)
		c.change(info)
		for !c.hit && sameStamp(info, stat(t, name)) { // until the file system's clock has moved
			c.change(info)
		}
		cache = openAt(t, filepath.Join(dir, "cache"), 10, later)
		now := stat(t, name)
		got, ok := lookup(cache, stampOf(now))
		if ok != c.hit || ok && got != root {
			t.Errorf("after a change of %s: %v, %s", what, ok, got)
		}
		closeCache(t, cache)
	}
}

func sameStamp(a, b fs.FileInfo) bool {
	s, _ := StampOf(a)
	again, ok := StampOf(b)
	return ok && s == again
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRacy: what changed a moment before it was read, or while it was, is not
// recorded.
func TestRacy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	info := write(t, filepath.Join(dir, "f"), "x")
	must(t, os.Chtimes(filepath.Join(dir, "f"), time.Unix(1, 0), time.Unix(1, 0)))
	old := stat(t, filepath.Join(dir, "f"))
	for name, c := range map[string]struct {
		before, after fs.FileInfo
		now           time.Time
		hit           bool
	}{
		"at once":           {info, info, time.Now(), false},
		"an old time":       {old, old, time.Now(), false}, // the change time is new
		"changed meanwhile": {info, old, later(), false},
		"later":             {old, old, later(), true},
	} {
		cache := openAt(t, filepath.Join(dir, name), 10, func() time.Time { return c.now })
		record(cache, c.before, c.after, b3.Sum(nil))
		if _, ok := lookup(cache, stampOf(c.before)); ok != c.hit {
			t.Errorf("%s: %v", name, ok)
		}
		closeCache(t, cache)
	}
}

// TestBound: when its pages are full, entries that were used long ago go, and none that is used every day.
func TestBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	info := write(t, filepath.Join(dir, "f"), "x")
	s := stampOf(info)
	stamps := make([]Stamp, 300)
	for i := range stamps {
		s.inode = uint64(i) * neighbours
		stamps[i] = s
	}
	day := later()
	const pages = 2
	for i, s := range stamps { // ten a day
		if i%10 == 0 {
			day = day.Add(24 * time.Hour)
		}
		c := openAt(t, filepath.Join(dir, "cache"), pages, func() time.Time { return day })
		c.Record(s, b3.Sum([]byte{byte(i)}))
		if got := c.Lookup(stamps[:1]); got[0] != b3.Sum([]byte{0}) {
			t.Fatalf("%d: the one that is used every day is gone", i)
		}
		closeCache(t, c)
	}
	c := openAt(t, filepath.Join(dir, "cache"), pages, later)
	defer closeCache(t, c)
	found := 0
	for i, root := range c.Lookup(stamps) {
		switch {
		case root.IsZero() && i >= len(stamps)-slots/2:
			t.Errorf("the new entry %d is gone", i)
		case !root.IsZero():
			found++
			if root != b3.Sum([]byte{byte(i)}) {
				t.Errorf("%d has the address of another file", i)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "cache", fileName)); err != nil || info.Size() > pages*pageSize {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if found < pages*slots*3/4 || found > pages*slots {
		t.Errorf("%d entries are left of %d slots", found, pages*slots)
	}
}

// TestFill: a cache keeps all files until it is more than three quarters full, whatever their inodes are.
func TestFill(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]uint64{"in a row": 1, "every second": 2, "far apart": 1000} {
		dir := t.TempDir()
		s := stampOf(write(t, filepath.Join(dir, "f"), "x"))
		const pages = 128
		stamps := make([]Stamp, pages*slots*3/4)
		c := openAt(t, dir, pages, later)
		for i := range stamps {
			s.inode = 12345 + uint64(i)*step
			stamps[i] = s
			c.Record(s, b3.Root{1})
		}
		closeCache(t, c)
		c = openAt(t, dir, pages, later)
		missing := 0
		for _, root := range c.Lookup(stamps) {
			if root.IsZero() {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("inodes %s: %d of %d are missing", name, missing, len(stamps))
		}
		if info, err := c.file.Stat(); err != nil || info.Size() != pages*pageSize {
			t.Errorf("inodes %s: the file has %d bytes, %v", name, info.Size(), err)
		}
		closeCache(t, c)
	}
}

// TestDamage: damaged entries are not believed and not complained of, and are written anew.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(p []byte) []byte{
		"cut":     func(p []byte) []byte { return p[:len(p)/2] },
		"emptied": func([]byte) []byte { return nil },
		"turned": func(p []byte) []byte {
			for i := range p {
				p[i] ^= 0x55
			}
			return p
		},
	} {
		dir := filepath.Join(t.TempDir(), "cache")
		info := write(t, dir+".file", "x")
		c := openAt(t, dir, 10, later)
		record(c, info, info, b3.Sum([]byte("x")))
		closeCache(t, c)
		path := filepath.Join(dir, fileName)
		p, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, spoil(p), 0o600))
		c = openAt(t, dir, 10, later)
		if root, ok := lookup(c, stampOf(info)); ok && root != b3.Sum([]byte("x")) {
			t.Errorf("%s: %s", name, root)
		}
		record(c, info, info, b3.Sum([]byte("x")))
		closeCache(t, c)
		c = openAt(t, dir, 10, later)
		if _, ok := lookup(c, stampOf(info)); !ok {
			t.Errorf("%s: nothing is kept any more", name)
		}
		closeCache(t, c)
	}
}

// TestTogether: several users of a cache see what the others have recorded, and each entry is whole.
func TestTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stampOf(write(t, filepath.Join(dir, "f"), "x"))
	const users, each = 4, 1000
	stamps := make([]Stamp, users*each)
	for i := range stamps {
		s.inode = uint64(i)
		stamps[i] = s
	}
	root := func(i uint64) b3.Root { return b3.Sum([]byte{byte(i), byte(i >> 8)}) }
	var all sync.WaitGroup
	for u := range users {
		c := openAt(t, dir, 1<<10, later)
		all.Go(func() {
			for _, s := range stamps[u*each : (u+1)*each] {
				c.Record(s, root(s.inode))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c := openAt(t, dir, 1<<10, later)
	defer closeCache(t, c)
	for i, got := range c.Lookup(stamps) {
		if !got.IsZero() && got != root(stamps[i].inode) {
			t.Errorf("%d has the address of another file", i)
		}
	}
}

// TestEarlierVersion: the files of the database that earlier versions had are removed, and nothing of somebody else's.
func TestEarlierVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
	must(t, err)
	for _, key := range []string{"a", "b"} {
		must(t, db.Set([]byte(key), []byte("1"), pebble.Sync))
		must(t, db.Flush())
	}
	must(t, db.Close())
	write(t, filepath.Join(dir, "2026.log"), "of another program")
	must(t, os.Mkdir(filepath.Join(dir, "000099.sst"), 0o700))
	for range 2 {
		closeCache(t, openAt(t, dir, 10, later))
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		must(t, err)
		for i := range left {
			left[i] = filepath.Base(left[i])
		}
		if want := []string{"000099.sst", "2026.log", fileName}; !slices.Equal(left, want) {
			t.Errorf("%q is left, want %q", left, want)
		}
	}
}

// quiet is a logger of a database that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// TestDiskRefuses: a file that cannot be written loses entries, and nothing else.
func TestDiskRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	info := write(t, filepath.Join(dir, "f"), "x")
	c := openAt(t, filepath.Join(dir, "cache"), 10, later)
	must(t, c.file.Close())
	c.most, c.dir = 1<<10, filepath.Join(dir, "nowhere") // it cannot grow
	var err error
	c.file, err = os.Open(filepath.Join(dir, "cache", fileName))
	must(t, err)
	s := stampOf(info)
	for i := range uint64(2 * maxPending) { // more than there is space for
		s.inode = i
		c.Record(s, b3.Root{1})
	}
	if _, ok := lookup(c, s); ok {
		t.Error("an entry was found that could not be written")
	}
	closeCache(t, c)
}

// record records root as the reader of a file does.
func record(c *Cache, before, after fs.FileInfo, root b3.Root) {
	if s, ok := c.Settled(before, after); ok {
		c.Record(s, root)
	}
}

// lookup returns what c knows of one file.
func lookup(c *Cache, s Stamp) (root b3.Root, ok bool) {
	root = c.Lookup([]Stamp{s})[0]
	return root, !root.IsZero()
}
