package s3

import (
	"context"
	"errors"
	"io"
	"iter"
)

// Bucket is a flat set of named objects. Its methods are safe for concurrent
// use.
type Bucket interface {
	// Put stores size bytes of r under key and replaces an object that has the key.
	// With ifAbsent it leaves that object as it is and returns ErrExists. Put may
	// read r more than once and from several goroutines.
	Put(ctx context.Context, key string, r io.ReaderAt, size int64, ifAbsent bool) error
	// ReadAt fills p from offset off of an object. It returns not_found when there
	// is no object, and io.ErrUnexpectedEOF when the object ends before p is full.
	ReadAt(ctx context.Context, key string, p []byte, off int64) error
	// Stat returns an object's size in bytes, or not_found.
	Stat(ctx context.Context, key string) (int64, error)
	// List yields the objects whose key starts with prefix, in ascending order. It
	// requests a page at a time. It yields an error last.
	List(ctx context.Context, prefix string) iter.Seq2[Item, error]
	// Delete removes an object. It returns nil when there is none.
	Delete(ctx context.Context, key string) error
	// Close closes idle connections.
	Close()
}

// Item is one object of a listing.
type Item struct {
	Key  string // without the configured prefix
	Size int64  // bytes
}

// ErrExists reports that a put with ifAbsent found an object. Test for it with errors.Is.
var ErrExists = errors.New("the bucket has one already")
