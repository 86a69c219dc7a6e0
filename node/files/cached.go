package files

import (
	"context"
	"io"
	"io/fs"

	"allium/gateway/api"
	"allium/node/files/addcache"
	"allium/protocols/b3"
)

// cacheLookups is the maximum number of items that CachedItems reads ahead, to look them up together.
const cacheLookups = 1024

// CacheOptions say how an add uses the add cache.
type CacheOptions struct {
	// Rehash reads every file, also those that the cache knows.
	Rehash bool
	// ReadOnly records nothing. The add needs it when the node that reports the
	// addresses is not this user's own: a false address would stay in the cache.
	ReadOnly bool
}

// CachedItems returns the items of a [Disk] with the addresses that the cache
// knows. The cache records the files that are read. Names, links and executable
// bits always come from the disk.
func CachedItems(items Items, cache *addcache.Cache, o CacheOptions) Items {
	return inBatches(items, cacheLookups, func(batch []Item) error {
		stamps := make([]addcache.Stamp, len(batch))
		for i, it := range batch {
			stamps[i] = it.file.stamp
			if it.file != (diskFile{}) && !o.ReadOnly {
				batch[i].Open = recorded(it.Open, cache)
			}
		}
		if !o.Rehash {
			for i, root := range cache.Lookup(stamps) {
				if !root.IsZero() {
					batch[i].Root = root
				}
			}
		}
		return nil
	})
}

// inBatches returns the items after prepare has changed them, up to n at a time. The
// error of items ends the sequence after the items before it; an error of prepare
// ends it at once.
func inBatches(items Items, n int, prepare func([]Item) error) Items {
	return func(yield func(Item, error) bool) {
		batch := make([]Item, 0, n)
		flush := func() bool {
			if err := prepare(batch); err != nil {
				yield(Item{}, err)
				return false
			}
			for _, it := range batch {
				if !yield(it, nil) {
					return false
				}
			}
			batch = batch[:0]
			return true
		}
		for it, err := range items {
			if err != nil {
				if flush() {
					yield(Item{}, err)
				}
				return
			}
			if batch = append(batch, it); len(batch) == n && !flush() {
				return
			}
		}
		flush()
	}
}

// cacheable is an open file whose address the add cache may record.
type cacheable interface {
	// recorder returns the function that records the address of what was read. It
	// is nil when the file changed, or may change unnoticed. Call it after the last
	// byte was read; the function may be called later, when the file is closed.
	recorder() func(b3.Root)
}

// statter is an open file that reports its state.
type statter interface {
	io.ReadCloser
	Stat() (fs.FileInfo, error)
}

// recorded returns an Open function whose files are cacheable.
func recorded(open func() (io.ReadCloser, error), cache *addcache.Cache) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := open()
		if err != nil {
			return nil, err
		}
		if s, ok := f.(statter); ok {
			if before, err := s.Stat(); err == nil {
				return &recordedFile{s, before, cache}, nil
			}
		}
		return f, nil
	}
}

// recordedFile is an open file with its state before it is read.
type recordedFile struct {
	statter
	before fs.FileInfo
	cache  *addcache.Cache
}

// recorder implements cacheable.
func (f *recordedFile) recorder() func(b3.Root) {
	after, err := f.Stat()
	if err != nil {
		return nil
	}
	stamp, ok := f.cache.Settled(f.before, after)
	if !ok {
		return nil
	}
	return func(root b3.Root) { f.cache.Record(stamp, root) }
}

// keepBatch is the maximum number of items that onlyHeld reads ahead, to ask the node for
// them together.
const keepBatch = 1024

// onlyHeld returns the items. It clears each address of an object that s does not
// hold, so that the file is sent.
func onlyHeld(ctx context.Context, s api.Store, items Items) Items {
	return inBatches(items, keepBatch, func(batch []Item) error { return clearMissing(ctx, s, batch) })
}

// clearMissing clears the addresses of objects that s does not hold.
func clearMissing(ctx context.Context, s api.Store, items []Item) error {
	var roots []b3.Root
	for _, it := range items {
		if !it.Root.IsZero() {
			roots = append(roots, it.Root)
		}
	}
	if len(roots) == 0 {
		return nil
	}
	have, err := s.Keep(ctx, roots)
	if err != nil {
		return err
	}
	for i := range items {
		if items[i].Root.IsZero() {
			continue
		}
		if !have[0] {
			items[i].Root = b3.Root{}
		}
		have = have[1:]
	}
	return nil
}

// withoutRoots returns the items without addresses, so that every file is read.
func withoutRoots(items Items) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range items {
			it.Root = b3.Root{}
			if !yield(it, err) {
				return
			}
		}
	}
}
