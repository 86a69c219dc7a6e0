package site

import (
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/b3"
)

// cacheBytes bounds the memory of the rules that are kept, over all sites.
const cacheBytes = 16 << 20

// At is the directory that is the root of a site.
type At struct {
	Root b3.Root
	Path string // below Root, without slashes at its ends
}

// Cache keeps the rules of sites. The bytes of an address never change, so an entry never becomes stale. The least
// recently used are dropped for new ones. It is safe for concurrent use.
type Cache struct {
	mu   sync.Mutex // guards what follows; lock: leaf
	lru  *simplelru.LRU[At, kept]
	used int64 // bytes
}

// kept are the rules of a site, or what is wrong with its files.
type kept struct {
	rules *Rules
	err   error
	bytes int64
}

// NewCache returns an empty Cache.
func NewCache(registry *limits.Registry) (*Cache, error) {
	c := &Cache{}
	var err error
	c.lru, err = simplelru.NewLRU(math.MaxInt, func(_ At, k kept) { c.used -= k.bytes })
	if err != nil {
		return nil, fmt.Errorf("create the cache of rules: %w", err)
	}
	registry.NewUsage(limits.Spec{
		Name: "gateway.site_rules", Path: "_redirects, _headers and site.json → answers",
		Policy: "the least recently used is dropped",
	}, cacheBytes, func() int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.used
	})
	return c, nil
}

// Get returns what Add kept for a site. ok is false if that is nothing.
func (c *Cache) Get(at At) (rules *Rules, err error, ok bool) { //nolint:revive // err is what was kept
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.lru.Get(at)
	return k.rules, k.err, ok
}

// Add keeps the rules of a site that were parsed from size bytes, or what is wrong with them.
func (c *Cache) Add(at At, rules *Rules, err error, size int) {
	k := kept{rules, err, 1<<10 + 8*int64(size)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru.Contains(at) {
		return
	}
	c.used += k.bytes
	c.lru.Add(at, k)
	for c.used > cacheBytes {
		c.lru.RemoveOldest()
	}
}
