package cache

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/b3"
	"allium/store/meta"
)

// The bounds of the cache.
const (
	MaxObject = 4 * b3.GroupSize // largest object that is cached, in bytes
	MinBytes  = 1 << 20          // smallest size of a shard in bytes: it holds several of the largest objects
)

const (
	objectOverhead = 512 // bytes that an object counts for beside its own
	maxShards      = 16
)

// RAM caches verified objects in RAM. An object is added when it is asked for the second
// time among the last 1,024 or so addresses of its shard, so that one pass over everything
// does not evict what is in demand. The least recently used are evicted when their bytes
// are needed. Its methods are safe for concurrent use. A nil RAM caches nothing; only Peek
// and Add need one that is not nil.
type RAM struct {
	shards     []ramShard
	shardBytes int64 // size of a shard in bytes

	bytes, objects, hits, misses atomic.Int64
}

type ramShard struct {
	mu      sync.Mutex // lock: leaf
	objects *simplelru.LRU[b3.Root, *InRAM]
	asked   asked // for once, and not cached
	bytes   int64
}

// InRAM is a cached object. It does not change.
type InRAM struct {
	Entry  meta.Entry
	Memory *b3.Memory
	Reader *b3.Reader
}

func (o *InRAM) cost() int64 { return o.Entry.Size + b3.OutboardSize(o.Entry.Size) + objectOverhead }

// NewRAM returns a cache of that many bytes, or nil for 0.
func NewRAM(bytes int64) (*RAM, error) {
	if bytes == 0 {
		return nil, nil
	}
	n := min(maxShards, bytes/MinBytes)
	h := &RAM{shards: make([]ramShard, n), shardBytes: bytes / n}
	for i := range h.shards {
		s := &h.shards[i]
		s.asked = newAsked()
		var err error
		if s.objects, err = simplelru.NewLRU[b3.Root, *InRAM](int(h.shardBytes/objectOverhead)+1, nil); err != nil {
			return nil, fmt.Errorf("create the RAM cache: %w", err)
		}
	}
	return h, nil
}

// Stats returns the size of the cache and its hits and misses.
func (h *RAM) Stats() Stats {
	if h == nil {
		return Stats{}
	}
	return Stats{
		Objects: h.objects.Load(), Bytes: h.bytes.Load(), Hits: h.hits.Load(), Misses: h.misses.Load(),
	}
}

// shard returns the shard of root. Addresses are digests, so any byte spreads them evenly.
func (h *RAM) shard(root b3.Root) *ramShard { return &h.shards[int(root[1])%len(h.shards)] }

// Get returns the object root, nil when it is not cached. It then notes that root was asked
// for; wanted reports that this was not the first time, and the caller should Add it.
func (h *RAM) Get(root b3.Root) (o *InRAM, wanted bool) {
	if h == nil {
		return nil, false
	}
	s := h.shard(root)
	s.mu.Lock()
	o, ok := s.objects.Get(root)
	if !ok {
		wanted = s.asked.take(root)
	}
	s.mu.Unlock()
	if ok {
		h.hits.Add(1)
	} else {
		h.misses.Add(1)
	}
	return o, wanted
}

// Peek returns the object root as Get, but notes nothing when it is not cached.
func (h *RAM) Peek(root b3.Root) *InRAM {
	s := h.shard(root)
	s.mu.Lock()
	o, ok := s.objects.Get(root)
	s.mu.Unlock()
	if ok {
		h.hits.Add(1)
	}
	return o
}

// Add caches e, whose bytes are mem, and evicts what no longer fits.
func (h *RAM) Add(e meta.Entry, mem *b3.Memory) *InRAM {
	o := &InRAM{Entry: e, Memory: mem, Reader: mem.Reader()}
	s := h.shard(o.Entry.Root)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.remove(s, o.Entry.Root)
	s.objects.Add(o.Entry.Root, o)
	h.addSize(s, 1, o.cost())
	for s.bytes > h.shardBytes {
		_, old, _ := s.objects.RemoveOldest()
		h.addSize(s, -1, -old.cost())
	}
	return o
}

// Drop removes root from the cache.
func (h *RAM) Drop(root b3.Root) {
	if h == nil {
		return
	}
	s := h.shard(root)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.remove(s, root)
}

// remove removes root from s, which is locked.
func (h *RAM) remove(s *ramShard, root b3.Root) {
	if old, ok := s.objects.Peek(root); ok {
		s.objects.Remove(root)
		h.addSize(s, -1, -old.cost())
	}
}

// addSize adds to the counters of s, which is locked, and of h.
func (h *RAM) addSize(s *ramShard, objects, bytes int64) {
	s.bytes += bytes
	h.bytes.Add(bytes)
	h.objects.Add(objects)
}

// Stats are the counters of a RAM cache, all zero without one.
type Stats struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`  // including what an object counts for beside its own
	Hits    int64 `json:"hits"`   // opens that it answered
	Misses  int64 `json:"misses"` // opens that it did not
}
