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
// The cache is a hint. It is never synced, and a damaged cache is discarded. A caller
// that finds an address asks the store whether it holds the object. Only one process
// can open a cache at a time. Above 1,048,576 entries (about 100 MiB) Close removes a
// quarter: the least recently used.
//
// An add calls [StampOf] for each listed file and [Cache.Lookup] for many at once. For
// a file that it must read, it calls [Cache.Settled] after the last byte, and
// [Cache.Record] once the address is known. [Cache.Close] ends the add.
package addcache

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/pebbledb"
	"allium/protocols/b3"
)

// maxEntries bounds the cache. Close removes entries above it.
const maxEntries = 1 << 20

// racy is the smallest age of a file's times when it is read. Some file systems
// store times in units of two seconds.
const racy = 2 * time.Second

// Cache is an open cache. Its methods are safe for concurrent use until Close.
type Cache struct {
	dir  string
	lock *pebble.Lock
	db   *pebbledb.DB
	max  int64
	now  func() time.Time

	count  atomic.Int64 // at least the number of entries: a replaced entry counts twice
	broken atomic.Bool  // the files are damaged or a write failed: Close discards them
}

// Open opens or creates the cache in dir. It fails when another process has the cache
// open. It replaces an unreadable cache by an empty one. now is the clock.
func Open(dir string, now func() time.Time) (*Cache, error) { return open(dir, maxEntries, now) }

func open(dir string, most int64, now func() time.Time) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("add cache: %w", err)
	}
	lock, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return nil, fmt.Errorf("add cache: another add uses it: %w", err)
	}
	c := &Cache{dir: dir, max: most, now: now, lock: lock}
	if err = c.openDB(); err != nil {
		if err = empty(dir); err == nil {
			err = c.openDB()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("add cache: %w", err), lock.Close())
	}
	c.count.Store(c.counted())
	return c, nil
}

// cacheBytes bounds the memory for blocks of an open cache. Writes take at most as
// much again, which Pebble takes from the same block cache.
const cacheBytes = 8 << 20

// indexBlockSize is large enough for the index of a whole table, so that Pebble reads
// and decodes it once.
const indexBlockSize = 1 << 20

func (c *Cache) openDB() (err error) {
	blocks := pebble.NewCache(2 * cacheBytes)
	defer blocks.Unref() // the database holds its own reference
	o := pebble.Options{
		FS: unsynced{vfs.Default}, Lock: c.lock, Cache: blocks, DisableWAL: true,
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       cacheBytes / 2, MemTableStopWritesThreshold: 4, MaxOpenFiles: 64,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}
	for i := range o.Levels {
		o.Levels[i].IndexBlockSize = indexBlockSize
	}
	c.db, err = pebbledb.Open(c.dir, o, nil)
	return err
}

// empty removes everything in dir except the lock, which this process holds.
func empty(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n.Name() != "LOCK" {
			err = errors.Join(err, os.RemoveAll(dir+string(os.PathSeparator)+n.Name()))
		}
	}
	return err
}

// Keys: 'e' device inode → entry; 'n' → number of entries.
var countKey = []byte{'n'}

func entryKey(s Stamp) []byte {
	k := append(make([]byte, 0, 17), 'e')
	k = binary.BigEndian.AppendUint64(k, s.device)
	return binary.BigEndian.AppendUint64(k, s.inode)
}

// Stamp identifies a file and its state. The zero Stamp describes no file.
type Stamp struct {
	device, inode uint64
	size          int64
	modified      int64 // Unix time in nanoseconds
	changed       int64 // Unix time in nanoseconds
}

// Recent reports whether the file changed so recently that a later change could leave the same stamp.
func (s Stamp) Recent(now time.Time) bool {
	return now.Sub(time.Unix(0, max(s.modified, s.changed))) < racy
}

// String returns the stamp as text: two stamps have the same text if they are equal.
func (s Stamp) String() string {
	return fmt.Sprintf("%x.%x.%x.%x.%x", s.device, s.inode, s.size, s.modified, s.changed)
}

// compare orders stamps by their keys.
func (s Stamp) compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.device, o.device), cmp.Compare(s.inode, o.inode))
}

// entrySize is the size of an entry in bytes: size, two times, day of the last use,
// address.
const entrySize = 3*8 + 4 + b3.Size

func (c *Cache) encode(s Stamp, root b3.Root) []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, entrySize), uint64(s.size))
	v = binary.BigEndian.AppendUint64(v, uint64(s.modified))
	v = binary.BigEndian.AppendUint64(v, uint64(s.changed))
	v = binary.BigEndian.AppendUint32(v, c.today())
	return append(v, root[:]...)
}

func (c *Cache) today() uint32 { return uint32(c.now().Unix() / (24 * 60 * 60)) }

// Lookup returns the address of each file of stamps: the address that the file had
// in that state, or zero when the cache has no entry of it. A found entry counts
// as used today.
func (c *Cache) Lookup(stamps []Stamp) []b3.Root {
	roots := make([]b3.Root, len(stamps))
	if c.broken.Load() {
		return roots
	}
	order := make([]int, 0, len(stamps)) // indexes of stamps, by key
	for i, s := range stamps {
		if s != (Stamp{}) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return stamps[i].compare(stamps[j]) })
	keys := make([][]byte, len(order))
	for k, i := range order {
		keys[k] = entryKey(stamps[i])
	}
	c.failed(c.db.GetSorted(keys, func(k int, v []byte) {
		roots[order[k]] = c.use(stamps[order[k]], keys[k], v)
	}))
	return roots
}

// use returns the address in the entry v of s, or zero when v describes another
// state of the file. It writes the entry again when the last use was on another day.
func (c *Cache) use(s Stamp, key, v []byte) b3.Root {
	if len(v) != entrySize {
		c.broken.Store(true)
		return b3.Root{}
	}
	root := b3.Root(v[entrySize-b3.Size:])
	fresh := c.encode(s, root)
	const state = 3 * 8 // bytes of the size and the two times
	if !bytes.Equal(v[:state], fresh[:state]) {
		return b3.Root{}
	}
	if !bytes.Equal(v, fresh) {
		c.failed(c.db.Set(key, fresh))
	}
	return root
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
func (c *Cache) Record(s Stamp, root b3.Root) {
	if c.broken.Load() {
		return
	}
	c.failed(c.db.Set(entryKey(s), c.encode(s, root)))
	c.count.Add(1)
}

func (c *Cache) failed(err error) {
	if err != nil && !errors.Is(err, pebbledb.ErrNotFound) {
		c.broken.Store(true)
	}
}

func (c *Cache) counted() int64 {
	v, err := c.db.Get(countKey)
	if err != nil || len(v) != 8 {
		c.failed(err)
		return 0
	}
	return int64(binary.BigEndian.Uint64(v))
}
