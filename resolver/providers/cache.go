package providers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/trace"
)

// cache remembers what lookups found, also that they found nobody, and the answers
// that were made of it. It holds at most Config.CacheEntries entries and
// Config.CacheBytes bytes; the least recently used ones leave. Its methods are safe
// for concurrent use.
type cache struct {
	maxEntries int
	maxBytes   int64
	usage      *limits.Usage
	bytes      atomic.Int64
	entries    atomic.Int64

	mu  sync.Mutex // lock: leaf
	lru *simplelru.LRU[b3.Root, *entry]
}

// entry is the cached search result and answer of one root. Entries are immutable; a change makes
// a new one.
type entry struct {
	search  *searched // what the network lookup found; nil: there was none
	ranking *ranking  // the answer; nil: nobody asked for one
	size    int64     // bytes in memory, estimated
}

// searched is the result of a network lookup.
type searched struct {
	found    []record.Provider
	complete bool            // the lookup ended by itself: there are no others
	err      error           // why it found nobody; nil also when nobody has the object
	by       status.LookupID // the lookup that began it
	at       time.Time
	expires  time.Time
}

// ranking is an answer: providers of all sources, the best first.
type ranking struct {
	providers []Provider        // each peer once; shared and never changed
	sure      answer.Confidence // the highest of providers
	complete  bool              // every source was asked to its end
	usable    bool              // the breaker of the best provider is not open
	epoch     uint64            // of peers, when the providers were ranked
	at        trace.Instant
	expires   trace.Instant
}

func newCache(cfg Config, r *limits.Registry) *cache {
	// One entry more than the cache may hold, as the LRU must never drop one by itself.
	lru, err := simplelru.NewLRU[b3.Root, *entry](cfg.CacheEntries+1, nil)
	if err != nil {
		panic(err) // only for a size below one, which Validate refuses
	}
	c := &cache{maxEntries: cfg.CacheEntries, maxBytes: cfg.CacheBytes, lru: lru}
	c.usage = r.NewUsage(limits.Spec{
		Name: "resolver.cache", Path: "lookups → resolver",
		Policy: "the least recently used answer is dropped",
	}, cfg.CacheBytes, c.bytes.Load)
	return c
}

// get returns the entry of root, or nil. Its parts may have expired.
func (c *cache) get(root b3.Root) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := c.lru.Get(root)
	return e
}

// searched returns the result of the network lookup of root, or nil when there is
// none that is valid now.
func (c *cache) searched(root b3.Root) *searched {
	if e := c.get(root); e != nil && e.search != nil && time.Now().Before(e.search.expires) {
		return e.search
	}
	return nil
}

// addSearch remembers the result of a network lookup. It drops an answer that was
// made without asking everyone, when everyone has been asked now.
func (c *cache) addSearch(root b3.Root, s *searched) {
	c.update(root, func(old entry) entry {
		old.search = s
		if old.ranking != nil && s.complete && !old.ranking.complete {
			old.ranking = nil
		}
		return old
	})
}

// addRanking remembers an answer.
func (c *cache) addRanking(root b3.Root, r *ranking) {
	c.update(root, func(old entry) entry {
		old.ranking = r
		return old
	})
}

// rerank replaces the answer old by r, unless another replaced it meanwhile.
func (c *cache) rerank(root b3.Root, old, r *ranking) {
	c.update(root, func(e entry) entry {
		if e.ranking == old {
			e.ranking = r
		}
		return e
	})
}

// update replaces the entry of root by what change makes of it. change works on
// memory alone.
func (c *cache) update(root b3.Root, change func(entry) entry) {
	for {
		before := c.get(root)
		var e entry
		if before != nil {
			e = *before
		}
		e = change(e)
		e.size = sizeOf(&e)
		if c.replace(root, before, &e) {
			c.usage.Grown()
			return
		}
	}
}

// replace puts e in the place of before, unless another entry is there by now.
func (c *cache) replace(root b3.Root, before, e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.lru.Peek(root)
	if now != before {
		return false
	}
	if now != nil {
		c.bytes.Add(-now.size)
	}
	c.lru.Add(root, e)
	c.bytes.Add(e.size)
	for c.lru.Len() > 0 && (c.lru.Len() > c.maxEntries || c.bytes.Load() > c.maxBytes) {
		_, oldest, _ := c.lru.RemoveOldest()
		c.bytes.Add(-oldest.size)
	}
	c.entries.Store(int64(c.lru.Len()))
	return true
}

// sweepAtOnce is the maximum number of entries that a sweep looks at while it holds the lock.
const sweepAtOnce = 256

// sweep drops the entries that have expired.
func (c *cache) sweep(now time.Time) {
	c.mu.Lock()
	roots := c.lru.Keys()
	c.mu.Unlock()
	for len(roots) > 0 {
		n := min(len(roots), sweepAtOnce)
		c.drop(roots[:n], now)
		roots = roots[n:]
	}
}

// drop removes those of roots that have expired.
func (c *cache) drop(roots []b3.Root, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, root := range roots {
		e, ok := c.lru.Peek(root)
		if !ok || e.search != nil && now.Before(e.search.expires) ||
			e.ranking != nil && trace.InstantOf(now) < e.ranking.expires {
			continue
		}
		c.lru.Remove(root)
		c.bytes.Add(-e.size)
	}
	c.entries.Store(int64(c.lru.Len()))
}

// len returns how many entries the cache holds.
func (c *cache) len() int { return int(c.entries.Load()) }

// The memory of the parts of an entry in bytes, as BenchmarkAnswerMemory measures it: with one provider,
// and with five that have three addresses each.
const (
	sizeOfEntry    = 240 // with its place in the list and in the map, which may be half empty
	sizeOfSearched = 112
	sizeOfRanking  = 80
	sizeOfProvider = 200 // without its addresses; a list has space for more
	sizeOfRanked   = 176 // without its texts
	sizeOfAddr     = 24
	sizeOfSegment  = 64 // of an address
	sizeOfString   = 32 // beside its bytes
	sizeOfProof    = 64 // beside its bytes
)

// sizeOf estimates the memory of an entry. A ranking shares its addresses with the search
// or with the announcements.
func sizeOf(e *entry) int64 {
	n := int64(sizeOfEntry)
	if e.search != nil {
		n += sizeOfSearched
		for i := range e.search.found {
			n += sizeOfProvider
			for _, a := range e.search.found[i].Addrs {
				n += sizeOfAddr + sizeOfSegment*int64(len(a))
			}
			if p := e.search.found[i].Proof; p != nil {
				n += sizeOfProof + int64(len(p.Envelope)+len(p.PeerRecord))
			}
		}
	}
	if e.ranking != nil {
		n += sizeOfRanking
		for i := range e.ranking.providers {
			n += sizeOfRanked
			if e.ranking.providers[i].Origin == record.OriginLocal {
				continue // all answers share its text
			}
			t := &e.ranking.providers[i].Text
			n += sizeOfString + int64(len(t.ID))
			for _, a := range t.Addrs {
				n += sizeOfString + int64(len(a))
			}
		}
	}
	return n
}

// spread returns d ± 10 %, so that entries of one moment do not expire at one
// moment.
func spread(d time.Duration) time.Duration { return jitter.SpreadBy(d, 0.1) }

// lifetime returns how long an answer may be remembered: ttl ± 10 %, and never past
// the end of a record that is part of it. now is the clock that dates records.
func lifetime(ttl time.Duration, found []record.Provider, now time.Time) time.Duration {
	left := spread(ttl)
	for i := range found {
		if end := found[i].NotAfter; !end.IsZero() {
			left = min(left, end.Sub(now))
		}
	}
	return max(left, 0)
}
