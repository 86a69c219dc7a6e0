package pack

import (
	"sync"
	"weak"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/gateway/exchange"
	"allium/gateway/pack/tile"
	"allium/internal/limits"
	"allium/protocols/b3"
)

// maxETags bounds the ETags of tiles that are kept, about 250 bytes each. A new one replaces the least
// recently used.
const maxETags = 16384

// etagCache keeps the ETags of tiles, since hashing a tile costs more than finding it. The bytes of a place
// never change while a state of a pack is served. It is safe for concurrent use.
type etagCache struct {
	mu  sync.Mutex // guards lru
	lru *simplelru.LRU[placeOf, string]
}

// placeOf is the place of a tile of one state, which it does not keep in memory.
type placeOf struct {
	state weak.Pointer[state]
	at    tile.Place
}

func newETagCache(registry *limits.Registry) (*etagCache, error) {
	lru, err := simplelru.NewLRU[placeOf, string](maxETags, nil)
	if err != nil {
		return nil, err
	}
	c := &etagCache{lru: lru}
	registry.NewUsage(limits.Spec{
		Name: "gateway.pack_etags", Path: "tiles → cached ETags", Policy: "the least recently used is dropped",
	}, maxETags, func() int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return int64(c.lru.Len())
	})
	return c, nil
}

// get returns the ETag of a place, "" if it is not known.
func (c *etagCache) get(of placeOf) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	etag, _ := c.lru.Get(of)
	return etag
}

// add returns the ETag of the stored bytes of a place, and keeps it.
func (c *etagCache) add(of placeOf, stored []byte) string {
	etag := exchange.ETag(b3.Sum(stored))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Add(of, etag)
	return etag
}
