package pmtiles

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/gzip"

	"allium/gateway/pack/tile"
	"allium/internal/guard"
	"allium/internal/linked"
)

// Cache holds the decoded directories of all archives that were opened with it, up to a number of
// bytes. It drops the least recently used ones, and does not keep one that is larger than the whole
// cache. At most 4 are decoded at a time. Its methods may be called from any goroutine.
type Cache struct {
	budget   int64
	decoding chan struct{} // holds one value for each directory that is being decoded
	readers  sync.Pool     // of *gzip.Reader

	mu     sync.Mutex // guards what follows, and the maps and loads of all directories; lock: leaf
	used   int64
	recent linked.List[cached]
}

// NewCache returns an empty cache of budget bytes.
func NewCache(budget int64) *Cache {
	return &Cache{
		budget:   budget,
		decoding: make(chan struct{}, decoders), // bound: decoders
		readers:  sync.Pool{New: func() any { return new(gzip.Reader) }},
	}
}

// Used returns the bytes of the directories in the cache. It is at most the cache's budget.
func (c *Cache) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// cached is a directory in a cache.
type cached struct {
	owner *directories
	at    section
	dir   directory
	node  linked.Node[cached]
}

// overhead is the size in bytes of a directory in a cache without its entries: the struct, and about
// twice a place in the map.
const overhead = int64(unsafe.Sizeof(cached{}) + 2*(unsafe.Sizeof(section{})+unsafe.Sizeof(&cached{})))

// weight returns the bytes of a directory in the cache.
func (k *cached) weight() int64 { return overhead + int64(cap(k.dir))*entryBytes }

// insert adds k, unless its archive has this directory in the cache, or it is larger than the whole
// cache. The caller holds mu.
func (c *Cache) insert(k *cached) {
	if k.owner.cached[k.at] != nil || k.weight() > c.budget {
		return
	}
	for c.used+k.weight() > c.budget {
		c.remove(c.recent.Oldest())
	}
	k.owner.cached[k.at] = k
	c.recent.Push(&k.node, k)
	c.used += k.weight()
}

// remove removes k, which is in the cache. The caller holds mu.
func (c *Cache) remove(k *cached) {
	delete(k.owner.cached, k.at)
	c.recent.Remove(&k.node)
	c.used -= k.weight()
}

// decode decodes a directory once fewer than decoders others are being decoded.
func (c *Cache) decode(ctx context.Context, h *header, stored []byte) (directory, error) {
	select {
	case c.decoding <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.decoding }()
	r := c.readers.Get().(*gzip.Reader)
	defer c.readers.Put(r)
	return h.decode(stored, r)
}

// directories are the directories of one archive, which it reads through a cache. Each is read once
// for all who need it at the same time. Its methods may be called from any goroutine.
type directories struct {
	cache *Cache
	read  func(context.Context, section) (directory, error) // reads and decodes one
	tasks sync.WaitGroup                                    // the loads

	cached map[section]*cached // guarded by Cache.mu, as is loads
	loads  map[loadKey]*load
}

// loadKey tells loads apart. A load that reads only local bytes fails where another one asks peers.
type loadKey struct {
	at    section
	local bool
}

// load is the reading of a directory, for one user or more. It ends early when the last of them has
// left.
type load struct {
	loadKey
	users  int // guarded by Cache.mu
	cancel context.CancelFunc
	done   chan struct{}

	dir directory // set before done is closed, as is err
	err error
}

func newDirectories(c *Cache, read func(context.Context, section) (directory, error)) *directories {
	return &directories{cache: c, read: read, cached: map[section]*cached{}, loads: map[loadKey]*load{}}
}

// get returns a directory, from the cache or the file. It stops waiting when ctx is done.
func (d *directories) get(ctx context.Context, at section) (directory, error) {
	dir, l := d.find(ctx, at)
	if l == nil {
		return dir, nil
	}
	select {
	case <-l.done:
		return l.dir, l.err
	case <-ctx.Done():
		d.leave(l)
		return nil, fmt.Errorf("wait for a directory of the pack: %w", ctx.Err())
	}
}

// find returns a directory of the cache, or else the load of it, which it starts if there is none.
func (d *directories) find(ctx context.Context, at section) (directory, *load) {
	c := d.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := d.cached[at]; k != nil {
		c.recent.Remove(&k.node)
		c.recent.Push(&k.node, k)
		return k.dir, nil
	}
	key := loadKey{at, tile.IsLocalOnly(ctx)}
	l := d.loads[key]
	if l == nil {
		l = d.start(ctx, key)
	}
	l.users++
	return nil, l
}

// start starts the load of a directory. The caller holds Cache.mu. The load has the values of ctx, but
// not its end: others may wait for it too.
func (d *directories) start(ctx context.Context, key loadKey) *load {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &load{loadKey: key, cancel: cancel, done: make(chan struct{})}
	d.loads[key] = l
	d.tasks.Go(func() {
		defer cancel()
		err := guard.Run(func() (err error) {
			l.dir, err = d.read(ctx, key.at)
			return err
		})
		d.finish(l, err)
	})
	return l
}

// finish ends a load and wakes its users.
func (d *directories) finish(l *load, err error) {
	c := d.cache
	c.mu.Lock()
	if l.err = err; err == nil {
		c.insert(&cached{owner: d, at: l.at, dir: l.dir})
	} else {
		l.dir = nil
	}
	if d.loads[l.loadKey] == l {
		delete(d.loads, l.loadKey)
	}
	c.mu.Unlock()
	close(l.done)
}

// leave ends one user's wait for a load. The last user ends the load.
func (d *directories) leave(l *load) {
	d.cache.mu.Lock()
	defer d.cache.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.cancel()
	if d.loads[l.loadKey] == l {
		delete(d.loads, l.loadKey)
	}
}

// close waits for loads that were given up, and removes all directories from the cache.
func (d *directories) close() {
	d.tasks.Wait()
	c := d.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range d.cached {
		c.remove(k)
	}
}
