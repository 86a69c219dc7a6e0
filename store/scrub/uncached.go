package scrub

import (
	"allium/protocols/b3"
	"allium/store/meta"
)

// cacheWindow is the number of groups (1 MiB) that are dropped from the page cache together.
const cacheWindow = 16

// uncachedSource reads a large object once, from front to back, and leaves the page cache
// as it was: it drops what was not cached before, so that a scrub does not evict what
// others read. It is for one goroutine.
type uncachedSource struct {
	meta.PairSource
	first int64 // first group of the window
	cold  bool  // the window was not cached before it was read
}

func newUncachedSource(p meta.Pair, size int64) *uncachedSource {
	noReadAhead(p.Data) // read-ahead would make the next windows look cached
	return &uncachedSource{PairSource: meta.PairSource{Pair: p, Size: size}, first: -cacheWindow}
}

// ReadGroup implements b3.Source.
func (f *uncachedSource) ReadGroup(g int64, p []byte) (int, error) {
	if g < f.first || g >= f.first+cacheWindow {
		f.dropWindow()
		f.first = g
		f.cold = !pageCached(f.Pair.Data, g*b3.GroupSize)
	}
	return f.PairSource.ReadGroup(g, p)
}

// dropWindow drops the current window from the page cache if it was not cached before.
func (f *uncachedSource) dropWindow() {
	if f.cold {
		dropPages(f.Pair.Data, f.first*b3.GroupSize, cacheWindow*b3.GroupSize)
		f.cold = false
	}
}
