package records

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/pebbledb"
)

// place opens the databases of a store: the one in its directory on disk, and those in RAM.
type place struct {
	dir  string
	fs   vfs.FS
	log  *slog.Logger
	most struct{ disk, ram int64 } // bytes, see MaxBytes and MaxRAM
}

// open opens a database in RAM or on disk, a new one if the directory has none.
func (p *place) open(dir string, fs vfs.FS, ram bool) (*database, error) {
	blocks := pebble.NewCache(cache)
	defer blocks.Unref() // the database holds its own reference
	d, err := pebbledb.Open(dir, pebble.Options{
		FS: fs, Cache: blocks, DisableWAL: ram, FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize: memTable, L0CompactionThreshold: merged, L0StopWritesThreshold: 2 * merged, MaxOpenFiles: tables,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}, p.log)
	if err != nil {
		return nil, err
	}
	db := &database{DB: d, ram: ram, most: p.most.disk, replaced: make(chan struct{})}
	if ram {
		db.most = p.most.ram
	}
	db.size.Store(db.Size())
	return db, nil
}

// openDisk opens the database on disk. Damage is a pebbledb.Error.
func (p *place) openDisk() (*database, error) {
	damage, err := checkClean(p.fs, p.dir)
	if err != nil {
		return nil, err
	}
	if damage != nil {
		return nil, &pebbledb.Error{Err: damage, Damage: true}
	}
	return p.open(p.dir, p.fs, false)
}

// probe returns an error if the disk refuses a write of memTable bytes.
func (p *place) probe() (err error) {
	if err := p.fs.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	name := p.fs.PathJoin(p.dir, "probe")
	f, err := p.fs.Create(name, "records-probe")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, memTable))
	return errors.Join(err, f.Sync(), f.Close(), p.fs.Remove(name))
}

// setAside renames the damaged database on disk, removes an older one that was set aside,
// and makes an empty directory in its place.
func (p *place) setAside(why error) error {
	aside := p.dir + ".damaged"
	err := p.fs.RemoveAll(aside)
	if err == nil {
		err = p.fs.Rename(p.dir, aside)
	}
	if err == nil {
		err = p.fs.MkdirAll(p.dir, 0o700)
	}
	if err != nil {
		p.log.Warn("the damaged records of discovery cannot be set aside", "dir", p.dir, "err", err, "damage", why)
		return fmt.Errorf("set the damaged records aside: %w", err)
	}
	p.log.Warn(
		"the records of discovery are damaged: they were set aside, and the node starts with none. Nothing else "+
			"is affected. Delete the directory that was set aside when nobody needs it",
		"dir", p.dir, "aside", aside, "err", why)
	return nil
}

// closer closes databases, and counts those that cannot be closed. Only Run uses it.
type closer struct {
	log       *slog.Logger
	closing   sync.WaitGroup
	abandoned int
}

// close closes a database that the store has stopped using. It waits up to closeWait. A
// database that is not closed by then, or that cannot be closed, counts as abandoned.
func (c *closer) close(db *database) {
	done := make(chan struct{})
	c.closing.Go(func() {
		defer close(done)
		if err := db.Close(); err != nil && db.Err() == nil {
			c.log.Warn("the database of the records of discovery could not be closed cleanly", "err", err)
		}
	})
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-done:
		if !db.Abandoned() {
			return
		}
	case <-late.C:
	}
	if c.abandoned++; c.abandoned == maxAbandoned {
		c.log.Error(
			"the records of discovery stay in RAM until the node is restarted: too many of their databases failed " +
				"in a way that leaves memory behind")
	}
}
