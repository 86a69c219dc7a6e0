//go:build linux || darwin

package addcache

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/pebbledb"
	"allium/protocols/b3"
)

// later is a clock by which nothing was changed just now.
func later() time.Time { return time.Now().Add(time.Hour) }

func openAt(t *testing.T, dir string, most int64, now func() time.Time) *Cache {
	t.Helper()
	c, err := open(dir, most, now)
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

// TestBound: of too many entries those go that were used longest ago.
func TestBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var infos []fs.FileInfo
	for i := range 100 {
		infos = append(infos, write(t, filepath.Join(dir, strconv.Itoa(i)), "x"))
	}
	day := later()
	clock := func() time.Time { return day }
	for i, info := range infos { // ten a day
		if i%10 == 0 {
			day = day.Add(24 * time.Hour)
		}
		c := openAt(t, filepath.Join(dir, "cache"), 80, clock)
		record(c, info, info, b3.Sum(nil))
		if _, ok := lookup(c, stampOf(infos[0])); !ok {
			t.Fatalf("%d: the one that is used every day is gone", i)
		}
		closeCache(t, c)
		if n := entries(t, filepath.Join(dir, "cache")); n > 80 {
			t.Fatalf("%d entries", n)
		}
	}
	c := openAt(t, filepath.Join(dir, "cache"), 80, clock)
	defer closeCache(t, c)
	for i, want := range map[int]bool{0: true, 1: false, 10: false, 50: true, 99: true} {
		if _, ok := lookup(c, stampOf(infos[i])); ok != want {
			t.Errorf("%d: %v", i, ok)
		}
	}
}

func entries(t *testing.T, dir string) (n int) {
	t.Helper()
	c := openAt(t, dir, 1<<20, later)
	defer closeCache(t, c)
	must(t, c.each(func(uint32, []byte) error { n++; return nil }))
	return n
}

// TestDamage: a damaged cache is thrown away, not believed and not complained of.
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
		files, err := os.ReadDir(dir)
		must(t, err)
		for _, f := range files {
			p, err := os.ReadFile(filepath.Join(dir, f.Name()))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, f.Name()), spoil(p), 0o600))
		}
		for range 2 { // what is found out by the first use is mended by the second
			c = openAt(t, dir, 10, later)
			if root, ok := lookup(c, stampOf(info)); ok && root != b3.Sum([]byte("x")) {
				t.Errorf("%s: %s", name, root)
			}
			closeCache(t, c)
		}
		c = openAt(t, dir, 10, later)
		record(c, info, info, b3.Sum([]byte("x")))
		if _, ok := lookup(c, stampOf(info)); !ok {
			t.Errorf("%s: nothing is kept any more", name)
		}
		closeCache(t, c)
	}
}

// TestOneOwner: a second opener is refused, and the next one is not.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openAt(t, dir, 10, later)
	if _, err := Open(dir, time.Now); err == nil {
		t.Error("opened twice")
	}
	closeCache(t, c)
	c, err := Open(dir, time.Now)
	must(t, err)
	closeCache(t, c)
}

// TestDiskRefuses: a disk that takes no more neither ends the process nor makes
// an add wait: the cache is given up, and the next add begins another one.
func TestDiskRefuses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	info := write(t, dir+".file", "x")
	c := openAt(t, dir, 1<<20, later)
	must(t, c.db.Close())
	full := &atomic.Bool{}
	blocks := pebble.NewCache(cacheBytes)
	defer blocks.Unref()
	var err error
	c.db, err = pebbledb.Open(dir, pebble.Options{
		FS: fullDisk{vfs.Default, full}, Lock: c.lock, Cache: blocks,
		DisableWAL: true, MemTableSize: 256 << 10, FormatMajorVersion: pebble.FormatValueSeparation,
	}, nil)
	must(t, err)
	full.Store(true)
	s, _ := StampOf(info)
	for i := range 20_000 { // many times what is held in RAM
		s.inode = uint64(i)
		c.failed(c.db.Set(entryKey(s), c.encode(s, b3.Root{})))
	}
	record(c, info, info, b3.Root{})
	if _, ok := lookup(c, stampOf(info)); ok || !c.broken.Load() {
		t.Error("the cache is used although nothing can be written")
	}
	full.Store(false)
	if c.Close() == nil {
		t.Error("Close says nothing of a cache that failed")
	}
	if n := entries(t, dir); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// fullDisk creates no file while full is set.
type fullDisk struct {
	vfs.FS
	full *atomic.Bool
}

func (f fullDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.full.Load() {
		return nil, syscall.ENOSPC
	}
	return f.FS.Create(name, c)
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
