package gateway

import (
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/admission"
	"allium/protocols/b3"
)

// kindsKept is for how many objects a gateway remembers the type of their
// content, about 100 bytes each.
const kindsKept = 4096

// kinds remembers what the first bytes of objects without a name said: a range
// from the middle, or HEAD, would have to read and prove those first. An address
// never changes its bytes, so an entry is never wrong.
type kinds struct {
	mu  sync.Mutex
	lru *simplelru.LRU[b3.Root, string]
}

func newKinds(limits *admission.Registry) (*kinds, error) {
	lru, err := simplelru.NewLRU[b3.Root, string](kindsKept, nil)
	if err != nil {
		return nil, fmt.Errorf("gateway: content types: %w", err)
	}
	k := &kinds{lru: lru}
	limits.NewUsage(admission.Spec{
		Name: "gateway.kinds", Path: "answers → content types that are remembered", Policy: "least recently used are forgotten",
	}, kindsKept, func() int64 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return int64(k.lru.Len())
	})
	return k, nil
}

// get is the type of root's content, empty where it is not known.
func (k *kinds) get(root b3.Root) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, _ := k.lru.Get(root)
	return t
}

func (k *kinds) add(root b3.Root, contentType string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lru.Add(root, contentType)
}
