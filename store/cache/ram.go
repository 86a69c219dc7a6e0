package cache

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/b3"
	"allium/store/meta"
)

// What the tier in RAM takes.
const (
	MaxObject = 4 * b3.GroupSize // bytes; larger objects are left to the disk
	MinBytes  = 1 << 20          // least size of a shard, so that it holds several of the largest
)

const (
	overhead  = 512 // bytes charged for an object beside its own
	maxShards = 16
	seenMost  = 1024 // addresses that a shard remembers having been asked for once
)

// RAM is the tier of verified objects in RAM above the disk. An object comes in
// when it is opened for the second time among the last 1,024 or so addresses of
// its shard, so that one pass over everything leaves what is in demand where it
// is; it leaves when it was not opened for longest and its bytes are needed.
//
// Invariant: what is here is visible and not marked corrupt, or is being
// dropped. Who removes or marks an object drops it; who opens one looks here
// under a lease, when no removal is under way.
type RAM struct {
	shards []ramShard
	most   int64 // bytes of a shard

	bytes, objects, hits, misses atomic.Int64
}

type ramShard struct {
	mu    sync.Mutex
	held  *simplelru.LRU[b3.Root, *InRAM]
	seen  *simplelru.LRU[b3.Root, struct{}]
	bytes int64
}

// InRAM does not change.
type InRAM struct {
	Entry  meta.Entry
	Memory *b3.Memory
	Reader *b3.Reader
}

func (o *InRAM) cost() int64 { return o.Entry.Size + b3.OutboardSize(o.Entry.Size) + overhead }

// NewRAM returns a tier of that many bytes, or nil, which holds nothing.
func NewRAM(bytes int64) (*RAM, error) {
	if bytes == 0 {
		return nil, nil
	}
	n := min(maxShards, bytes/MinBytes)
	h := &RAM{shards: make([]ramShard, n), most: bytes / n}
	for i := range h.shards {
		var err error
		s := &h.shards[i]
		if s.held, err = simplelru.NewLRU[b3.Root, *InRAM](int(h.most/overhead)+1, nil); err != nil {
			return nil, fmt.Errorf("store: hot tier: %w", err)
		}
		if s.seen, err = simplelru.NewLRU[b3.Root, struct{}](seenMost, nil); err != nil {
			return nil, fmt.Errorf("store: hot tier: %w", err)
		}
	}
	return h, nil
}

// Stats returns what the tier holds, and how often what was opened was there.
func (h *RAM) Stats() Stats {
	if h == nil {
		return Stats{}
	}
	return Stats{Objects: h.objects.Load(), Bytes: h.bytes.Load(), Hits: h.hits.Load(), Misses: h.misses.Load()}
}

// shard is the one of root. Addresses are digests: any byte spreads them.
func (h *RAM) shard(root b3.Root) *ramShard { return &h.shards[int(root[1])%len(h.shards)] }

// Get returns root's bytes. Where it has none it notes that root was asked for,
// and wanted says that this was not the first time.
func (h *RAM) Get(root b3.Root) (o *InRAM, wanted bool) {
	if h == nil {
		return nil, false
	}
	s := h.shard(root)
	s.mu.Lock()
	o, ok := s.held.Get(root)
	if !ok {
		wanted = s.seen.Remove(root)
		if !wanted {
			s.seen.Add(root, struct{}{})
		}
	}
	s.mu.Unlock()
	if ok {
		h.hits.Add(1)
	} else {
		h.misses.Add(1)
	}
	return o, wanted
}

// Peek is get where root is held; where it is not, nothing is noted.
func (h *RAM) Peek(root b3.Root) *InRAM {
	s := h.shard(root)
	s.mu.Lock()
	o, ok := s.held.Get(root)
	s.mu.Unlock()
	if ok {
		h.hits.Add(1)
	}
	return o
}

// Add takes e in, whose bytes are mem, and lets go of what there is no room for.
func (h *RAM) Add(e meta.Entry, mem *b3.Memory) *InRAM {
	o := &InRAM{Entry: e, Memory: mem, Reader: mem.Reader()}
	s := h.shard(o.Entry.Root)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.take(s, o.Entry.Root)
	s.held.Add(o.Entry.Root, o)
	h.count(s, 1, o.cost())
	for s.bytes > h.most {
		_, old, _ := s.held.RemoveOldest()
		h.count(s, -1, -old.cost())
	}
	return o
}

// Drop forgets root.
func (h *RAM) Drop(root b3.Root) {
	if h == nil {
		return
	}
	s := h.shard(root)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.take(s, root)
}

// take removes root from s, which is locked.
func (h *RAM) take(s *ramShard, root b3.Root) {
	if old, ok := s.held.Peek(root); ok {
		s.held.Remove(root)
		h.count(s, -1, -old.cost())
	}
}

func (h *RAM) count(s *ramShard, objects, bytes int64) {
	s.bytes += bytes
	h.bytes.Add(bytes)
	h.objects.Add(objects)
}

// Stats is the tier of verified objects in RAM, all zero without one.
type Stats struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`  // with what they cost beside their own
	Hits    int64 `json:"hits"`   // opens that it answered
	Misses  int64 `json:"misses"` // opens that it did not
}
