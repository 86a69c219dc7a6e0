// Package directories keeps the manifests in which names were looked up, as tables in memory.
package directories

import (
	"fmt"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// overhead is the memory in bytes that a kept manifest takes beside its table.
const overhead = 512

// Cache keeps the manifests in which names were looked up, as tables. So the time for a file does not depend on how
// many siblings it has. The bytes of an address never change, so an entry never becomes stale. A caller asks the
// denylist and the store before it uses one. The least recently used are dropped for new ones. Its methods may be
// called from any goroutine.
type Cache struct {
	most  int64 // bytes
	usage *limits.Usage

	mu      sync.Mutex // guards what follows; lock: leaf
	lru     *simplelru.LRU[b3.Root, *manifest.Table]
	used    int64             // bytes of the tables, and of those being read
	reading map[b3.Root]int64 // the bytes of the tables being read
}

// New returns an empty cache of at most so many bytes.
func New(registry *limits.Registry, most limits.Bytes) (*Cache, error) {
	k := &Cache{most: int64(most), reading: map[b3.Root]int64{}}
	var err error
	k.lru, err = simplelru.NewLRU(math.MaxInt, func(_ b3.Root, t *manifest.Table) { k.used -= bytesOf(t) })
	if err != nil {
		return nil, fmt.Errorf("create the cache of directories: %w", err)
	}
	k.usage = registry.NewUsage(limits.Spec{
		Name: "gateway.directories", Path: "manifests → lookups of names",
		Policy: "the least recently used is dropped; else the manifest is read in parts",
	}, k.most, func() int64 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.used
	})
	return k, nil
}

// bytesOf returns what a kept table takes.
func bytesOf(t *manifest.Table) int64 { return t.Bytes() + overhead }

// Get returns the manifest root, or nil.
func (k *Cache) Get(root b3.Root) *manifest.Table {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, _ := k.lru.Get(root)
	return t
}

// Reserve makes room for the manifest root of size bytes, which the caller reads, and then calls Done. It returns false
// if another request reads it, or if others being read take the room.
func (k *Cache) Reserve(root b3.Root, size int64) bool {
	n := manifest.MaxTable(size) + overhead
	if !k.take(root, n) {
		return false
	}
	k.usage.Grown()
	return true
}

func (k *Cache) take(root b3.Root, n int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var beingRead int64
	for _, m := range k.reading {
		beingRead += m
	}
	if k.reading[root] > 0 || beingRead+n > k.most {
		return false
	}
	for k.used+n > k.most {
		k.lru.RemoveOldest()
	}
	k.reading[root] = n
	k.used += n
	return true
}

// Done ends a reservation and keeps t, unless that is nil.
func (k *Cache) Done(root b3.Root, t *manifest.Table) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used -= k.reading[root]
	delete(k.reading, root)
	if t != nil && !k.lru.Contains(root) {
		k.used += bytesOf(t)
		k.lru.Add(root, t)
	}
}
