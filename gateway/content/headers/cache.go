// Package headers caches header values of objects.
package headers

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	lru "github.com/hashicorp/golang-lru/v2"

	"allium/gateway/content/mediatype"
	"allium/internal/limits"
	"allium/protocols/b3"
)

// maxHeaders bounds the cached headers, about 300 bytes each. A new one replaces the
// least recently used.
const maxHeaders = 4096

// Header holds the header values of an object. It is immutable.
type Header struct {
	sniffed string // content type of an object without a name
	charset mediatype.Charset
	ETag    string
	Length  string // of the whole object
}

// ContentType returns the content type of the object in a file of a content type, "" for an unknown one.
func (k *Header) ContentType(named string) string {
	return k.charset.Declare(cmp.Or(named, k.sniffed))
}

// Cache caches what was sniffed. Without it HEAD, and a range from
// the middle of an object, would have to read and prove the object's first bytes. The bytes
// of an address never change, so an entry never becomes stale. It is safe for concurrent use.
type Cache struct {
	lru *lru.Cache[b3.Root, *Header]
}

// New returns an empty Cache.
func New(registry *limits.Registry) (*Cache, error) {
	known, err := lru.New[b3.Root, *Header](maxHeaders)
	if err != nil {
		return nil, fmt.Errorf("create the header cache: %w", err)
	}
	registry.NewUsage(limits.Spec{
		Name: "gateway.kinds", Path: "answers → cached content types", Policy: "the least recently used is dropped",
	}, maxHeaders, func() int64 { return int64(known.Len()) })
	return &Cache{known}, nil
}

// Get returns root's cached header, or nil.
func (k *Cache) Get(root b3.Root) *Header {
	known, _ := k.lru.Get(root)
	return known
}

// Add caches the header of root, an object of size bytes that begins with first.
func (k *Cache) Add(root b3.Root, etag string, first []byte, size int64) *Header {
	known := &Header{
		sniffed: http.DetectContentType(first), ETag: etag,
		charset: mediatype.CharsetOf(first, int64(len(first)) < size),
		Length:  strconv.FormatInt(size, 10),
	}
	k.lru.Add(root, known)
	return known
}
