// Package addcache remembers which content files had when they were added, so
// that the next add of an unchanged tree reads no file again.
//
// An entry is found by device and inode and counts while size, modification
// time and change time are the same to the nanosecond. The change time cannot be
// set by a program, so content that was written anew under an old modification
// time is noticed too. What changed within two seconds of being read is not
// recorded: a later write could bear the same times. What remains is a file
// written through a mapping without its times moving, and a clock set back.
//
// The cache is a hint. It is never synced, one that is damaged is thrown away,
// and whoever finds an address in it asks the store whether it has the object.
// It belongs to the process that opened it; a second one is refused. Beyond
// 1,048,576 entries (some 100 MiB) those that were used longest ago go.
package addcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/pebbledb"
	"allium/protocols/b3"
)

// maxEntries bounds the cache. Of a full one a quarter goes.
const maxEntries = 1 << 20

// racy is how old the times of a file must be when it is read: coarser file
// systems count in two seconds.
const racy = 2 * time.Second

// Cache is an open cache. Its methods are safe for concurrent use until Close.
type Cache struct {
	dir  string
	lock *pebble.Lock
	db   *pebbledb.DB
	max  int64
	now  func() time.Time

	count  atomic.Int64 // entries, or more: one that was replaced counts again
	broken atomic.Bool  // the files are damaged or the disk takes no more: Close throws them away
}

// Open opens the cache in dir, or makes it. It fails where another process has
// it open; one that cannot be read is replaced by an empty one. now is the clock.
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

// cacheBytes bounds the memory of an open cache: blocks, and as much again for
// what is written, which Pebble takes from the same cache.
const cacheBytes = 8 << 20

// indexBlockSize has room for the index of a whole table, which is then read and
// decoded once.
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

// empty removes what is in dir but for the lock, which is held.
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

// Keys: 'e' device inode → entry; 'n' → how many there are.
var countKey = []byte{'n'}

func entryKey(s Stamp) []byte {
	k := append(make([]byte, 0, 17), 'e')
	k = binary.BigEndian.AppendUint64(k, s.device)
	return binary.BigEndian.AppendUint64(k, s.inode)
}

// Stamp identifies a file and its state. The zero Stamp is of no file.
type Stamp struct {
	device, inode uint64
	size          int64
	modified      int64 // Unix time in nanoseconds
	changed       int64 // likewise
}

// entrySize is that of an entry: size, two times, day of the last use, address.
const entrySize = 3*8 + 4 + b3.Size

func (c *Cache) encode(s Stamp, root b3.Root) []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, entrySize), uint64(s.size))
	v = binary.BigEndian.AppendUint64(v, uint64(s.modified))
	v = binary.BigEndian.AppendUint64(v, uint64(s.changed))
	v = binary.BigEndian.AppendUint32(v, c.today())
	return append(v, root[:]...)
}

func (c *Cache) today() uint32 { return uint32(c.now().Unix() / (24 * 60 * 60)) }

// Lookup returns the address that the file had when it was in the state of s, if
// that is known.
func (c *Cache) Lookup(s Stamp) (root b3.Root, ok bool) {
	if s == (Stamp{}) || c.broken.Load() {
		return b3.Root{}, false
	}
	key := entryKey(s)
	v, err := c.db.Get(key)
	if err != nil {
		c.failed(err)
		return b3.Root{}, false
	}
	if len(v) != entrySize {
		c.broken.Store(true)
		return b3.Root{}, false
	}
	root = b3.Root(v[entrySize-b3.Size:])
	fresh := c.encode(s, root)
	const used = 3 * 8
	if string(v[:used]) != string(fresh[:used]) {
		return b3.Root{}, false
	}
	if string(v) != string(fresh) { // the day
		c.failed(c.db.Set(key, fresh))
	}
	return root, true
}

// Record notes that the file, of which before and after were taken before and
// after it was read, has that address. What may have changed meanwhile, or
// might change unnoticed, is not recorded.
func (c *Cache) Record(before, after fs.FileInfo, root b3.Root) {
	s, ok := StampOf(before)
	again, _ := StampOf(after)
	newest := time.Unix(0, max(s.modified, s.changed))
	if !ok || s != again || c.now().Sub(newest) < racy || c.broken.Load() {
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
