package fill

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
)

// Records is a database of small values that may fail. It is safe for concurrent use.
type Records interface {
	// Get returns the value of a key, or nil if there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// table remembers what paths became: the latest in RAM, and all in the database. There, a record has one of recordSlots
// places, by its key, and overwrites what is in it. So the database is bounded without a list of what it has. A lost
// record costs one request to an origin. Its methods are safe for concurrent use.
//
// That an origin does not have a path is in RAM alone. It holds for Config.MinFresh, so after a restart it would save
// one request. And clients choose the paths: each wrong one would be a write that costs another path its place.
type table struct {
	db  Records // nil: records are in RAM alone
	log *slog.Logger

	mu  sync.Mutex // lock: leaf
	lru *simplelru.LRU[pathKey, *record]
}

func newTable(db Records, n int, registry *limits.Registry, log *slog.Logger) (*table, error) {
	lru, err := simplelru.NewLRU[pathKey, *record](n, nil)
	if err != nil {
		return nil, fmt.Errorf("create the table of assets: %w", err)
	}
	t := &table{db: db, log: log, lru: lru}
	registry.NewUsage(limits.Spec{
		Name: "edge.records", Path: "fills → what paths became",
		Policy: "the least recently used is dropped from RAM; the database has 65,536",
	}, int64(n), func() int64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return int64(t.lru.Len())
	})
	return t, nil
}

// slot returns the key of the database for a path.
func slot(key pathKey) string {
	const _ = uint(recordSlots - 1<<16) // two bytes
	return fmt.Sprintf("%02x%02x", key[0], key[1])
}

// get returns the record of a path, or nil. A damaged record is none.
func (t *table) get(ctx context.Context, key pathKey) *record {
	if r := t.remembered(key); r != nil || t.db == nil {
		return r
	}
	p, err := t.db.Get(ctx, slot(key))
	if err != nil {
		t.log.Debug("a record of an asset cannot be read; the origin is asked", "err", err)
		return nil
	}
	r, ok := decodeRecord(key, p)
	if !ok {
		return nil
	}
	t.remember(key, r)
	return r
}

func (t *table) remembered(key pathKey) *record {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, _ := t.lru.Get(key)
	return r
}

// remember keeps a record in RAM.
func (t *table) remember(key pathKey, r *record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lru.Add(key, r)
}

// put replaces the record of a path. A path that the origin does not have any more loses its record in the database, so
// that its copy is not served stale once the RAM has forgotten that.
func (t *table) put(ctx context.Context, key pathKey, r *record) {
	t.remember(key, r)
	if t.db == nil {
		return
	}
	p := r.encode(key)
	if r.root.IsZero() {
		old, err := t.db.Get(ctx, slot(key))
		if _, ok := decodeRecord(key, old); err != nil || !ok {
			return
		}
		p = nil
	}
	if err := t.db.Put(ctx, slot(key), p); err != nil {
		t.log.Debug("a record of an asset is kept in RAM alone", "err", err)
	}
}
