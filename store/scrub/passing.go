package scrub

import (
	"allium/protocols/b3"
	"allium/store/meta"
)

// passingWindow is how many groups are read ahead and given up together (1 MiB).
const passingWindow = 16

// passingSource reads a large object once, from front to back, and leaves the
// page cache as it found it: what was not cached before is dropped behind the
// reader, so that a scrub does not push out what others read. It belongs to one
// goroutine.
type passingSource struct {
	meta.PairSource
	at   int64 // first group of the window
	cold bool  // the window was not cached when the reader came to it
}

func newPassingSource(p meta.Pair, size int64) *passingSource {
	noReadAhead(p.Data) // it would make the windows to come look cached
	return &passingSource{PairSource: meta.PairSource{Pair: p, Size: size}, at: -passingWindow}
}

// ReadGroup implements b3.Source.
func (f *passingSource) ReadGroup(g int64, p []byte) (int, error) {
	if g < f.at || g >= f.at+passingWindow {
		f.leave()
		f.at = g
		f.cold = !pageCached(f.Pair.Data, g*b3.GroupSize)
	}
	return f.PairSource.ReadGroup(g, p)
}

// leave gives up the window.
func (f *passingSource) leave() {
	if f.cold {
		dropPages(f.Pair.Data, f.at*b3.GroupSize, passingWindow*b3.GroupSize)
		f.cold = false
	}
}
