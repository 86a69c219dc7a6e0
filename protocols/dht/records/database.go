package records

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/pebbledb"
)

// database is the current database of the store, or an earlier one.
type database struct {
	*pebbledb.DB
	ram      bool
	most     int64         // bytes
	size     atomic.Int64  // bytes, as measured last
	added    atomic.Int64  // bytes of keys and values written since then, about
	replaced chan struct{} // closed when the store stops using the database
}

// open opens a database in RAM or on disk, a new one if the directory has none.
func (s *Store) open(dir string, fs vfs.FS, ram bool) (*database, error) {
	blocks := pebble.NewCache(cache)
	defer blocks.Unref() // the database holds its own reference
	d, err := pebbledb.Open(dir, pebble.Options{
		FS: fs, Cache: blocks, DisableWAL: ram, FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize: memTable, L0CompactionThreshold: merged, L0StopWritesThreshold: 2 * merged, MaxOpenFiles: tables,
		CompactionConcurrencyRange: func() (int, int) { return 1, 1 },
	}, s.log)
	if err != nil {
		return nil, err
	}
	db := &database{DB: d, ram: ram, most: s.most.disk, replaced: make(chan struct{})}
	if ram {
		db.most = s.most.ram
	}
	db.size.Store(db.Size())
	return db, nil
}

// gauge measures the size. Bytes that are written meanwhile still count as added.
func (d *database) gauge() {
	added := d.added.Load()
	d.size.Store(d.Size())
	d.added.Add(-added)
}

// full reports whether the database has reached most bytes, by the last measurement and
// what was written since.
func (d *database) full(most int64) bool { return d.size.Load()+d.added.Load() >= most }

// peersPart returns the bytes from which on a database takes no more records of peers.
func (*Store) peersPart(db *database) int64 { return db.most / 4 * 3 }
