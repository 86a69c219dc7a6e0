package pack

import (
	"bytes"
	"sync"
	"unsafe"
	"weak"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/gateway/exchange"
	"allium/gateway/pack/tile"
	"allium/internal/limits"
	"allium/protocols/b3"
)

// maxKnown bounds the entries, about 250 bytes each beside the tiles. A new one replaces the least recently used.
const maxKnown = 16384

// maxHot bounds a tile whose bytes are kept, in bytes.
const maxHot = 64 << 10

// tileCache keeps the ETags of tiles, since hashing a tile costs more than finding it, and the bytes of those that were
// asked for again: to read a database, or to prove what an address names, costs more than to send it. A tile of a state
// never changes. The cache is safe for concurrent use, and nobody changes the bytes in it.
type tileCache struct {
	budget int64

	mu   sync.Mutex // guards the rest; lock: leaf
	used int64
	lru  *simplelru.LRU[tileKey, known]
}

// tileKey names a tile of one state, which it does not keep in memory.
type tileKey struct {
	state weak.Pointer[state]
	coord tile.Coord
}

// known is an entry of the cache.
type known struct {
	etag   string
	stored []byte // nil: it was asked for once
}

// weight returns the bytes of an entry.
func (k known) weight() int64 {
	return int64(2*unsafe.Sizeof(tileKey{})+unsafe.Sizeof(k)) + int64(len(k.etag)+cap(k.stored))
}

// newTileCache returns a cache of budget bytes.
func newTileCache(budget int64, registry *limits.Registry) (*tileCache, error) {
	c := &tileCache{budget: budget}
	var err error
	c.lru, err = simplelru.NewLRU(maxKnown, func(_ tileKey, k known) { c.used -= k.weight() })
	if err != nil {
		return nil, err
	}
	registry.NewUsage(limits.Spec{
		Name: "gateway.pack_tiles", Path: "tiles → cached ETags and bytes",
		Policy: "the least recently used is dropped",
	}, budget, func() int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.used
	})
	return c, nil
}

// get returns the entry of a tile, an empty one if there is none.
func (c *tileCache) get(key tileKey) known {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, _ := c.lru.Get(key)
	return k
}

// note returns the ETag of a tile that was read. k is its entry. The cache keeps the ETag, and when the tile was
// read before also the bytes.
func (c *tileCache) note(key tileKey, k known, stored []byte) (etag string) {
	if k.etag != "" && len(stored) > maxHot {
		return k.etag
	}
	if k.etag == "" {
		k.etag = exchange.ETag(b3.Sum(stored))
	} else {
		k.stored = bytes.Clone(stored)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
	c.lru.Add(key, k)
	for c.used += k.weight(); c.used > c.budget; {
		c.lru.RemoveOldest()
	}
	return k.etag
}
