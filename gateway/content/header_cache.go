package content

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/gateway/content/mediatype"
	"allium/internal/limits"
	"allium/protocols/b3"
)

// maxCachedHeaders bounds the cached headers, about 300 bytes each. A new one replaces the
// least recently used.
const maxCachedHeaders = 4096

// cachedHeader holds the header values of an object. It is immutable.
type cachedHeader struct {
	sniffed string // content type of an object without a name
	charset mediatype.Charset
	etag    string
	length  string // of the whole object
}

// contentType returns the content type of the object in a file of a content type, "" for an unknown one.
func (k *cachedHeader) contentType(named string) string {
	return k.charset.Declare(cmp.Or(named, k.sniffed))
}

// headerCache caches what was sniffed. Without it HEAD, and a range from
// the middle of an object, would have to read and prove the object's first bytes. The bytes
// of an address never change, so an entry never becomes stale. It is safe for concurrent use.
type headerCache struct {
	mu  sync.Mutex // lock: leaf
	lru *simplelru.LRU[b3.Root, *cachedHeader]
}

func newHeaderCache(registry *limits.Registry) (*headerCache, error) {
	lru, err := simplelru.NewLRU[b3.Root, *cachedHeader](maxCachedHeaders, nil)
	if err != nil {
		return nil, fmt.Errorf("create the header cache: %w", err)
	}
	k := &headerCache{lru: lru}
	registry.NewUsage(limits.Spec{
		Name: "gateway.kinds", Path: "answers → cached content types", Policy: "the least recently used is dropped",
	}, maxCachedHeaders, func() int64 {
		k.mu.Lock()
		defer k.mu.Unlock()
		return int64(k.lru.Len())
	})
	return k, nil
}

// get returns root's cached header, or nil.
func (k *headerCache) get(root b3.Root) *cachedHeader {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, _ := k.lru.Get(root)
	return known
}

// add caches the header of root, an object of size bytes that begins with first.
func (k *headerCache) add(root b3.Root, etag string, first []byte, size int64) *cachedHeader {
	known := &cachedHeader{
		sniffed: http.DetectContentType(first), etag: etag,
		charset: mediatype.CharsetOf(first, int64(len(first)) < size),
		length:  strconv.FormatInt(size, 10),
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lru.Add(root, known)
	return known
}
