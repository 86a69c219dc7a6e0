package content

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/b3"
)

// kindsKept is for how many objects a gateway remembers their kind, about 300
// bytes each.
const kindsKept = 4096

// kind is what the header of an object without a name says. It does not change.
type kind struct {
	contentType string
	etag        string
	length      string // of the whole
}

// kinds remembers what the first bytes of objects without a name said: a range
// from the middle, or HEAD, would have to read and prove those first. An address
// never changes its bytes, so an entry is never wrong.
type kinds struct {
	mu  sync.Mutex
	lru *simplelru.LRU[b3.Root, *kind]
}

func newKinds(registry *limits.Registry) (*kinds, error) {
	lru, err := simplelru.NewLRU[b3.Root, *kind](kindsKept, nil)
	if err != nil {
		return nil, fmt.Errorf("gateway: content types: %w", err)
	}
	k := &kinds{lru: lru}
	registry.NewUsage(limits.Spec{
		Name: "gateway.kinds", Path: "answers → content types that are remembered", Policy: "least recently used are forgotten",
	}, kindsKept, func() int64 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return int64(k.lru.Len())
	})
	return k, nil
}

// get is root's kind, nil where it is not known.
func (k *kinds) get(root b3.Root) *kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, _ := k.lru.Get(root)
	return known
}

// add notes the type of root's content, of size bytes.
func (k *kinds) add(root b3.Root, etag, contentType string, size int64) {
	known := &kind{contentType: contentType, etag: etag, length: strconv.FormatInt(size, 10)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lru.Add(root, known)
}
