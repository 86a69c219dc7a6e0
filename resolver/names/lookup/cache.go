package lookup

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/name"
)

// entry holds the cached records of one name. An entry without records says that there are none.
type entry struct {
	v     name.Versions
	at    time.Time
	until time.Time
}

// entryBytes is the estimated size in bytes of an entry in memory, without its envelopes.
const entryBytes = 512

// serves reports whether the entry may be used at now, up to maxStale after its end.
func (e entry) serves(now time.Time, maxStale time.Duration) bool { return now.Sub(e.until) < maxStale }

func (e entry) size() int64 {
	n := int64(entryBytes)
	for _, r := range e.v.Records() {
		n += 2 * int64(len(r.Envelope)) // the decoded record has no more than its envelope
	}
	return n
}

// cache remembers the records of names, at most a number of bytes; the least recently used leave.
// Its methods are safe for concurrent use.
type cache struct {
	most  int64
	bytes atomic.Int64

	mu  sync.Mutex // lock: leaf
	lru *simplelru.LRU[name.Name, entry]
}

func newCache(most int64, r *limits.Registry) *cache {
	c := &cache{most: most}
	// The bytes bound the entries before their number does.
	lru, err := simplelru.NewLRU(int(most/entryBytes)+1, func(_ name.Name, e entry) { c.bytes.Add(-e.size()) })
	if err != nil {
		panic(err) // only for a size below one
	}
	c.lru = lru
	r.NewUsage(limits.Spec{
		Name: "resolver.names", Path: "lookups of names → resolver",
		Policy: "the least recently used record is dropped",
	}, most, c.bytes.Load)
	return c
}

func (c *cache) get(n name.Name) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Get(n)
}

// peek returns the records of a name. That is no use of them.
func (c *cache) peek(n name.Name) name.Versions {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := c.lru.Peek(n)
	return e.v
}

// update replaces the entry of n with what change makes of the records known so far, and returns it. No
// other update of n comes in between, so none puts back an older record. change must not block.
func (c *cache) update(n name.Name, change func(known name.Versions) entry) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, _ := c.lru.Peek(n)
	e := change(old.v)
	c.lru.Remove(n)
	c.lru.Add(n, e)
	c.bytes.Add(e.size())
	for c.bytes.Load() > c.most && c.lru.Len() > 1 {
		c.lru.RemoveOldest()
	}
	return e
}
