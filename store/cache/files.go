package cache

import (
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/store/meta"
)

// OpenFiles keeps the files of up to max large objects open after the last reader closed
// them, and closes the least recently used first. Each object has two files, and at most
// 272 KiB of proved parents (see [b3.Reader]). Serving many ranges of one object thus
// neither opens its files nor proves the top of its tree each time. Its methods are safe
// for concurrent use, and those with a nil check do nothing on a nil OpenFiles.
type OpenFiles struct {
	max  int
	hash *b3.HashQueue // nil for none

	mu     sync.Mutex // lock: leaf
	lru    *simplelru.LRU[b3.Root, *Opened]
	closed bool
}

// Opened is an open large object. Its files are closed when it is neither cached nor in
// use.
type Opened struct {
	Entry  meta.Entry
	Src    meta.PairSource
	Reader *b3.Reader

	users  int  // guarded by OpenFiles.mu
	cached bool // guarded by OpenFiles.mu
}

// NewOpenFiles returns a cache of up to max objects, listed in registry. Groups that are
// read from them are hashed by hash.
func NewOpenFiles(max int, hash *b3.HashQueue, registry *limits.Registry) (*OpenFiles, error) {
	lru, err := simplelru.NewLRU[b3.Root, *Opened](max+1, nil)
	if err != nil {
		return nil, fmt.Errorf("create the cache of open files: %w", err)
	}
	k := &OpenFiles{max: max, hash: hash, lru: lru}
	registry.NewUsage(limits.Spec{
		Name: "store.kept_open", Path: "reads of large objects → files that stay open",
		Policy: "least recently used are closed",
	}, int64(max), func() int64 { return int64(k.Len()) })
	return k, nil
}

// Get returns root and adds a use, which the caller ends with Release. It returns nil when
// root is not cached.
func (k *OpenFiles) Get(root b3.Root) *Opened {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o, ok := k.lru.Get(root)
	if !ok {
		return nil
	}
	o.users++
	return o
}

// Add caches e, whose files the caller has opened, with one use, which ends with Release.
// It replaces an entry of the same root, and evicts the least recently used one when there
// are more than max.
func (k *OpenFiles) Add(e meta.Entry, p meta.Pair) *Opened {
	src := meta.PairSource{Pair: p, Size: e.Size}
	o := &Opened{Entry: e, Src: src, Reader: k.hash.Reader(e.Root, e.Size, src), users: 1}
	k.mu.Lock()
	var idle []*Opened
	if !k.closed {
		idle = k.remove(o.Entry.Root, idle)
		o.cached = true
		k.lru.Add(o.Entry.Root, o)
		if k.lru.Len() > k.max {
			_, old, _ := k.lru.RemoveOldest()
			idle = old.evicted(idle)
		}
	}
	k.mu.Unlock()
	closeAll(idle)
	return o
}

// Len returns how many objects are cached.
func (k *OpenFiles) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lru.Len()
}

// Release ends one use of o.
func (k *OpenFiles) Release(o *Opened) {
	k.mu.Lock()
	o.users--
	over := o.users == 0 && !o.cached
	k.mu.Unlock()
	if over {
		o.Src.Pair.Close()
	}
}

// Drop removes root from the cache.
func (k *OpenFiles) Drop(root b3.Root) {
	if k == nil {
		return
	}
	k.mu.Lock()
	idle := k.remove(root, nil)
	k.mu.Unlock()
	closeAll(idle)
}

// Close empties the cache, which caches nothing from then on.
func (k *OpenFiles) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.closed = true
	var idle []*Opened
	for _, o := range k.lru.Values() {
		idle = o.evicted(idle)
	}
	k.lru.Purge()
	k.mu.Unlock()
	closeAll(idle)
}

// remove removes root from the cache. If it is not in use, it is appended to idle, for the
// caller to close. The caller holds mu.
func (k *OpenFiles) remove(root b3.Root, idle []*Opened) []*Opened {
	old, ok := k.lru.Peek(root)
	if !ok {
		return idle
	}
	k.lru.Remove(root)
	return old.evicted(idle)
}

// evicted notes that o left the cache, and appends it to idle if it is not in use.
func (o *Opened) evicted(idle []*Opened) []*Opened {
	if o.cached = false; o.users == 0 {
		return append(idle, o)
	}
	return idle
}

func closeAll(os []*Opened) {
	for _, o := range os {
		o.Src.Pair.Close()
	}
}

// CloseIdle closes the objects that nobody is reading, and returns how many files that
// closed.
func (k *OpenFiles) CloseIdle() int {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	var idle []*Opened
	for _, root := range k.lru.Keys() {
		if o, _ := k.lru.Peek(root); o.users == 0 {
			idle = k.remove(root, idle)
		}
	}
	k.mu.Unlock()
	closeAll(idle)
	return 2 * len(idle)
}
