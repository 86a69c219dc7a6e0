package tables

import (
	"sync/atomic"

	"allium/protocols/b3"
	"allium/store/bloom"
)

// rootFilter tells that the index has no entry of a root, without a look into the database. Most roots that
// are looked up are new ones, and the database asks each of its tables for these: some 8 µs, where the filter
// takes 0.1.
//
// A root is added before the entry is written, and stays when the entry is deleted. The entries from before
// the index was opened are read a page at a time, by look-ups that find nothing; until all are read, the
// filter tells nothing. So an index that nobody asks reads nothing, and the cost of reading is a part of what
// the look-ups cost without it.
//
// The roots are in layers, each four times as large as the one before, because a filter cannot grow. A root
// in any layer may have an entry. The layers take at most 27 MB, for 22 million roots that were added since the
// index was opened; with more the filter tells nothing any more.
type rootFilter struct {
	db      *database
	bytes   *atomic.Int64                  // of the layers
	layers  atomic.Pointer[[]*filterLayer] // at least one; the last one takes new roots
	full    atomic.Bool                    // the last layer is full, and there is no larger one
	allRead atomic.Bool                    // every older entry is in the filter
	reading atomic.Bool                    // a look-up is reading a page
	next    b3.Root                        // where the next page begins; belongs to who set reading
}

// filterLayer is a Bloom filter for a number of roots.
type filterLayer struct {
	*bloom.Filter
	most  int64 // roots
	added atomic.Int64
}

const (
	firstLayer = 1 << 16 // roots
	lastLayer  = 1 << 24 // roots
	filterPage = 256     // entries that one look-up reads
)

// MaxFilterBytes bounds the filter of the roots in an index: five layers of 10 bits for each root.
const MaxFilterBytes = (1<<16 + 1<<18 + 1<<20 + 1<<22 + 1<<24) * 10 / 8

// newRootFilter returns the filter of an index that was just opened. bytes, which may be nil, is set to its size.
func newRootFilter(db *database, bytes *atomic.Int64) *rootFilter {
	if bytes == nil {
		bytes = new(atomic.Int64)
	}
	bytes.Store(0)
	f := &rootFilter{db: db, bytes: bytes}
	f.addLayer(firstLayer)
	return f
}

// addLayer adds a layer for most roots. At most one call runs at a time.
func (f *rootFilter) addLayer(most int64) {
	l := &filterLayer{Filter: bloom.New(most), most: most}
	var layers []*filterLayer
	if old := f.layers.Load(); old != nil {
		layers = append(layers, *old...)
	}
	layers = append(layers, l)
	f.layers.Store(&layers)
	f.bytes.Add(l.Bytes())
}

// add adds root.
func (f *rootFilter) add(root b3.Root) {
	if f.full.Load() || f.has(root) {
		return
	}
	layers := *f.layers.Load()
	l := layers[len(layers)-1]
	l.Add(root)
	if l.added.Add(1) != l.most { // one call reaches it
		return
	}
	if l.most == lastLayer {
		f.full.Store(true)
		return
	}
	f.addLayer(4 * l.most)
}

func (f *rootFilter) has(root b3.Root) bool {
	for _, l := range *f.layers.Load() {
		if l.Has(root) {
			return true
		}
	}
	return false
}

// absent reports that the index has no entry of root. When it does not, the index may have one or none.
func (f *rootFilter) absent(root b3.Root) bool {
	return f.allRead.Load() && !f.full.Load() && !f.has(root)
}

// readPage adds a page of older entries, unless all are read or another call reads one. An error of the index
// is left to those whose answer depends on it.
func (f *rootFilter) readPage() {
	if f.allRead.Load() || f.full.Load() || !f.reading.CompareAndSwap(false, true) {
		return
	}
	defer f.reading.Store(false)
	n := 0
	err := f.db.scan(rootKey(keyObject, f.next), []byte{keyObject + 1}, func(key, _ []byte) (bool, error) {
		root, err := decodeRootKey(key)
		if err != nil {
			return false, err
		}
		if n++; n > filterPage {
			f.next = root
			return false, nil
		}
		f.add(root)
		return true, nil
	})
	if err == nil && n <= filterPage {
		f.allRead.Store(true)
	}
}
