package addcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Close removes the least recently used entries above the bound and writes the rest.
// It discards a damaged cache.
func (c *Cache) Close() error {
	err := errors.Join(c.write(), c.db.Close())
	if err != nil || c.broken.Load() {
		err = errors.Join(err, empty(c.dir))
	}
	if err := errors.Join(err, c.lock.Close()); err != nil {
		return fmt.Errorf("add cache: %w", err)
	}
	return nil
}

func (c *Cache) write() error {
	if c.broken.Load() {
		return nil
	}
	if err := c.trim(); err != nil {
		return err
	}
	n := binary.BigEndian.AppendUint64(nil, uint64(c.count.Load()))
	return errors.Join(c.db.Set(countKey, n), c.db.Flush())
}

// trim counts the entries when there may be too many. Then it removes those with the
// oldest days of use until three quarters of the bound are left.
func (c *Cache) trim() error {
	if c.count.Load() <= c.max {
		return nil
	}
	days := map[uint32]int64{}
	total := int64(0)
	err := c.each(func(day uint32, _ []byte) error {
		days[day]++
		total++
		return nil
	})
	if err != nil || total <= c.max {
		c.count.Store(total)
		return err
	}
	surplus := total - c.max*3/4
	c.count.Store(total - surplus)
	last := uint32(0) // the latest day with entries to remove
	rest := surplus   // entries of that day to remove
	for _, day := range slices.Sorted(maps.Keys(days)) {
		if last = day; rest <= days[day] {
			break
		}
		rest -= days[day]
	}
	return c.each(func(day uint32, key []byte) error {
		if day > last || day == last && rest == 0 {
			return nil
		}
		if day == last {
			rest--
		}
		return c.db.Delete(key)
	})
}

// each calls f for every entry.
func (c *Cache) each(f func(day uint32, key []byte) error) error {
	var err error
	rerr := c.db.Each([]byte{'e'}, []byte{'e' + 1}, func(key, v []byte) bool {
		if len(v) != entrySize {
			c.broken.Store(true)
			return false
		}
		err = f(binary.BigEndian.Uint32(v[3*8:]), key)
		return err == nil
	})
	return errors.Join(err, rerr)
}

// unsynced is a file system that syncs nothing. Files whose entries a power cut loses
// are read again.
type unsynced struct{ vfs.FS }

func (u unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsyncedFile(u.FS.Create(name, c))
}

func (u unsynced) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return unsyncedFile(u.FS.OpenReadWrite(name, c, opts...))
}

func (u unsynced) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsyncedFile(u.FS.ReuseForWrite(old, name, c))
}

func (u unsynced) OpenDir(name string) (vfs.File, error) { return unsyncedFile(u.FS.OpenDir(name)) }

type noSync struct{ vfs.File }

func unsyncedFile(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return noSync{f}, nil
}

func (noSync) Sync() error                { return nil }
func (noSync) SyncData() error            { return nil }
func (noSync) SyncTo(int64) (bool, error) { return false, nil }
