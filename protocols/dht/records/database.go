package records

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

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

	compacted time.Time // when it was full and was compacted last; only Run uses it
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

// peersPart returns the bytes from which on the database takes no more records of peers.
func (d *database) peersPart() int64 { return d.most / 4 * 3 }

// measure measures the database. If it is full, measure compacts it, at most once in
// compactEvery, to free what was deleted.
func (d *database) measure(ctx context.Context, log *slog.Logger) {
	if d.gauge(); !d.full(d.peersPart()) || time.Since(d.compacted) < compactEvery {
		return
	}
	d.compacted = time.Now()
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	if err := d.Compact(ctx, []byte("/"), []byte("0")); err != nil && ctx.Err() == nil {
		return // Run sees the failure through Failed
	}
	if d.gauge(); !d.full(d.peersPart()) {
		return
	}
	log.Warn("the records of discovery have reached their bound; further ones are kept in RAM alone", "bytes",
		d.size.Load(), "most", d.most)
}
