// Package addcache remembers the addresses of files that were added, so that the next
// add of an unchanged tree reads no file again.
//
// An entry is found by the device and the inode of a file. It is valid while the
// size, the modification time and the change time are equal to the nanosecond. A
// program cannot set the change time, so the cache also notices new content under an
// old modification time. A file that changed less than two seconds before it was read
// is not recorded, because a later write could leave the same times. The cache does
// not notice a write through a memory mapping that does not update the times, nor a
// change after the clock was set back.
//
// The cache is one file of pages with 51 entries each. The device and the inode choose two
// pages for an entry. When both are full, the file grows four times, up to 32,768 pages
// (128 MiB); from then on an entry that was used least recently is replaced. Pages that were
// never written take no space.
//
// The cache is a hint. It is never synced, every entry has a checksum, and one that cannot be
// read or written is lost. A caller that finds an address asks the store whether it holds
// the object. Several processes may use a cache at the same time; of what they write to one
// page at once, a part may be lost.
//
// An add calls [StampOf] for each listed file and [Cache.Lookup] for many at once. For
// a file that it must read, it calls [Cache.Settled] after the last byte, and
// [Cache.Record] once the address is known. [Cache.Close] ends the add.
package addcache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"allium/protocols/b3"
)

// fileName is the name of the file in the directory of the cache.
const fileName = "files"

// The numbers of pages that a file has at first, and at most.
const (
	minPages = 1 << 7
	maxPages = 1 << 15
)

// maxPending bounds the entries that wait to be written together.
const maxPending = 4096

// Cache is an open cache. Its methods are safe for concurrent use until Close.
type Cache struct {
	dir  string
	most uint64 // pages
	now  func() time.Time

	using chan struct{} // one token: its holder uses these
	file  *os.File
	pages uint64 // of file

	mu      sync.Mutex // lock: leaf
	pending []entry    // to be written
}

// Open opens or creates the cache in dir, and removes the files of the database that earlier versions had there. now is
// the clock.
func Open(dir string, now func() time.Time) (*Cache, error) {
	return open(dir, minPages, maxPages, now)
}

func open(dir string, least, most uint64, now func() time.Time) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("add cache: %w", err)
	}
	if err := removeDatabase(dir); err != nil {
		return nil, fmt.Errorf("add cache: %w", err)
	}
	c := &Cache{dir: dir, most: most, now: now, using: make(chan struct{}, 1)} // bound: one token
	var err error
	if c.file, err = os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("add cache: %w", err)
	}
	info, err := c.file.Stat()
	if err == nil {
		c.pages = min(uint64(info.Size())/pageSize, most) //nolint:gosec // not negative
		if c.pages < least {
			c.pages = least
			err = c.file.Truncate(int64(least * pageSize)) //nolint:gosec // not that large
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("add cache: %w", err), c.file.Close())
	}
	return c, nil
}

// digits begin the names of a database's files.
const digits = "[0-9][0-9][0-9][0-9][0-9][0-9]"

// databaseFiles match the names of the files of a Pebble database.
var databaseFiles = []string{
	digits + "*.log", digits + "*.sst", digits + "*.blob", "MANIFEST-[0-9]*", "OPTIONS-[0-9]*",
	"marker.format-version.*", "marker.manifest.*", "temporary.*.dbtmp", "LOCK",
}

// removeDatabase removes the files of a database from dir. It leaves other files: dir may be a link to a directory of
// somebody else.
func removeDatabase(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		match := func(pattern string) bool { ok, _ := filepath.Match(pattern, n.Name()); return ok }
		if n.Type().IsRegular() && slices.ContainsFunc(databaseFiles, match) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, n.Name())))
		}
	}
	return err
}

// today returns the number of days since 1970.
func (c *Cache) today() uint32 { return uint32(c.now().Unix() / (24 * 60 * 60)) }

// Lookup returns the address of each file of stamps: the address that the file had
// in that state, or zero when the cache has no entry of it. A found entry counts
// as used today.
func (c *Cache) Lookup(stamps []Stamp) []b3.Root {
	c.using <- struct{}{}
	defer func() { <-c.using }()
	c.write()
	roots := make([]b3.Root, len(stamps))
	order := make([]int, 0, len(stamps)) // indexes of stamps, by device and inode
	for i, s := range stamps {
		if s != (Stamp{}) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return stamps[i].compare(stamps[j]) })
	at := pagePair{file: c.file}
	today := c.today()
	for _, i := range order {
		at.load(placeOf(stamps[i], c.pages))
		e, ok := at.find(stamps[i])
		if !ok || e.stamp != stamps[i] {
			continue
		}
		roots[i] = e.root
		if e.day != today {
			c.addPending(entry{stamps[i], today, e.root})
		}
	}
	return roots
}

// Settled returns the stamp of a file that was just read; before and after describe
// it before and after the reading. ok is false when the file changed between them,
// or changed so recently that a later change could leave the same stamp.
func (c *Cache) Settled(before, after fs.FileInfo) (s Stamp, ok bool) {
	s, ok = StampOf(before)
	again, _ := StampOf(after)
	return s, ok && s == again && !s.Recent(c.now())
}

// Record stores the address of the file that had this stamp when it was read.
// The stamp is one that Settled has confirmed.
func (c *Cache) Record(s Stamp, root b3.Root) { c.add(entry{s, c.today(), root}) }

// add has an entry written soon. Its caller has no token.
func (c *Cache) add(e entry) {
	if c.addPending(e) >= maxPending {
		c.flush()
	}
}

// addPending adds an entry to those that are to be written, and returns their number.
func (c *Cache) addPending(e entry) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, e)
	return len(c.pending)
}

// flush writes the pending entries.
func (c *Cache) flush() {
	c.using <- struct{}{}
	defer func() { <-c.using }()
	c.write()
}

// write writes the pending entries. Its caller has the token.
func (c *Cache) write() {
	c.mu.Lock()
	all := c.pending
	c.pending = nil
	c.mu.Unlock()
	slices.SortStableFunc(all, func(a, b entry) int { return a.stamp.compare(b.stamp) })
	at := pagePair{file: c.file}
	for _, e := range all {
		at.load(placeOf(e.stamp, c.pages))
		for !at.put(e, c.pages >= c.most) {
			at.store()
			if !c.grow() {
				c.most = c.pages
			}
			at = pagePair{file: c.file}
			at.load(placeOf(e.stamp, c.pages))
		}
	}
	at.store()
}

// grow copies the entries to a file with more pages. It returns false if it cannot.
func (c *Cache) grow() bool {
	larger, err := os.CreateTemp(c.dir, fileName)
	if err != nil {
		return false
	}
	pages := min(4*c.pages, c.most)
	err = larger.Truncate(int64(pages * pageSize)) //nolint:gosec // not that large
	to := pagePair{file: larger}
	for number := range c.pages {
		var p page
		p.read(c.file, number)
		for slot := range slots {
			if e, ok := decode(p.slot(slot)); ok {
				to.load(placeOf(e.stamp, pages))
				to.put(e, true)
			}
		}
	}
	to.store()
	if err = errors.Join(err, os.Rename(larger.Name(), filepath.Join(c.dir, fileName))); err != nil {
		_, _ = larger.Close(), os.Remove(larger.Name())
		return false
	}
	_ = c.file.Close() // nothing was written to it that counts
	c.file, c.pages = larger, pages
	return true
}

// Close writes what was recorded.
func (c *Cache) Close() error {
	c.flush()
	if err := c.file.Close(); err != nil {
		return fmt.Errorf("add cache: %w", err)
	}
	return nil
}
