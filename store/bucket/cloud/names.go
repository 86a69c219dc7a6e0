package cloud

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"allium/store/disk/segment/codec"

	"allium/protocols/b3"
)

// Prefixes of names in the bucket, below the configured prefix.
const (
	objectPrefix   = "o/" // o/<2 hex>/<64 hex>: a large object
	outboardPrefix = "t/" // t/<2 hex>/<64 hex>: its outboard
	segmentsPrefix = "s/" // s/<node>/<16 hex>.seg[+<offset>]: a segment or a part of one
	nodesPrefix    = "n/" // n/<node>: the mark of a node
)

// First line of the file NODE, and the two marks of a node in the bucket.
const (
	nodeHead  = "allium node\n"
	markOwn   = "allium bucket 1\nexclusive\n"
	markShare = "allium bucket 1\nshared\n"
)

// objectKey returns the name of a large object or of its outboard, depending on prefix.
func objectKey(prefix string, root b3.Root) string {
	h := root.Hex()
	return prefix + h[:2] + "/" + h
}

// ObjectKey returns the name of the bytes of a large object, below the configured prefix.
func ObjectKey(root b3.Root) string { return objectKey(objectPrefix, root) }

// parseObjectKey is the inverse of objectKey.
func parseObjectKey(prefix, key string) (b3.Root, bool) {
	root, err := b3.Parse("b3:" + path.Base(key))
	return root, err == nil && objectKey(prefix, root) == key
}

func (c *conn) segmentPrefix() string { return segmentsPrefix + c.node + "/" }

// wholeKey returns the name of a whole segment in the bucket.
func (c *conn) wholeKey(num uint64) string { return c.segmentPrefix() + codec.FileName(num) }

// partKey returns the name of the part of a segment that begins at off.
func (c *conn) partKey(num uint64, off int64) string {
	return fmt.Sprintf("%s+%016x", c.wholeKey(num), off)
}

// parseSegmentKey is the inverse of wholeKey and partKey; off is -1 for a whole segment.
func (c *conn) parseSegmentKey(key string) (num uint64, off int64, ok bool) {
	name, part, isPart := strings.Cut(strings.TrimPrefix(key, c.segmentPrefix()), "+")
	num, ok = codec.ParseFileName(name)
	if !ok || !isPart {
		return num, -1, ok && key == c.wholeKey(num)
	}
	o, err := strconv.ParseUint(part, 16, 63)
	return num, int64(o), err == nil && key == c.partKey(num, int64(o))
}
