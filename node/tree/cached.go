package tree

import (
	"context"
	"io"
	"io/fs"

	"allium/gateway/api"
	"allium/node/tree/addcache"
	"allium/protocols/b3"
)

// CachedItems are the items of DiskItems with the addresses that cache knows
// (none with rehash). What is read is recorded there. Names, links and
// executable bits are always taken from the disk.
func CachedItems(items Items, cache *addcache.Cache, rehash bool) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range items {
			if err == nil && it.file != (diskFile{}) {
				if !rehash {
					it.Root, _ = cache.Lookup(it.file.stamp)
				}
				it.Open = recorded(it.Open, cache)
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// learner is a file that wants to know its address once it was read.
type learner interface{ learn(root b3.Root) }

// statter is a file of the local file system.
type statter interface {
	io.ReadCloser
	Stat() (fs.FileInfo, error)
}

// recorded is open of files that record their address.
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

// recordedFile is a file that was stat before it is read.
type recordedFile struct {
	statter
	before fs.FileInfo
	cache  *addcache.Cache
}

func (f *recordedFile) learn(root b3.Root) {
	if after, err := f.Stat(); err == nil {
		f.cache.Record(f.before, after, root)
	}
}

// askAhead is how many items wait until the node has said which of their
// addresses it holds.
const askAhead = 1024

// held are items of which only those keep their address that s holds.
func held(ctx context.Context, s api.Store, items Items) Items {
	return func(yield func(Item, error) bool) {
		var waiting []Item
		flush := func() bool {
			if err := keepHeld(ctx, s, waiting); err != nil {
				yield(Item{}, err)
				return false
			}
			for _, it := range waiting {
				if !yield(it, nil) {
					return false
				}
			}
			waiting = waiting[:0]
			return true
		}
		for it, err := range items {
			if err != nil {
				if flush() {
					yield(Item{}, err)
				}
				return
			}
			if len(waiting) == 0 && it.Root.IsZero() {
				if !yield(it, nil) {
					return
				}
				continue
			}
			if waiting = append(waiting, it); len(waiting) == askAhead && !flush() {
				return
			}
		}
		flush()
	}
}

// keepHeld clears the addresses that s does not hold.
func keepHeld(ctx context.Context, s api.Store, items []Item) error {
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

// unknown are items whose addresses are not known, so that all is read.
func unknown(items Items) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range items {
			it.Root = b3.Root{}
			if !yield(it, err) {
				return
			}
		}
	}
}
