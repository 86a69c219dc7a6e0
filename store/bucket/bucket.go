package bucket

import (
	"context"
	"errors"
	"io"
	"iter"
)

// Bucket is a flat set of named objects. Its methods are safe for concurrent
// use.
type Bucket interface {
	// Put stores size bytes of r under key. With ifAbsent it returns ErrExists
	// when there is one, and leaves it; otherwise it replaces it. r may be read
	// more than once.
	Put(ctx context.Context, key string, r io.ReaderAt, size int64, ifAbsent bool) error
	// ReadAt fills p from offset off of an object: not_found when there is no
	// object, io.ErrUnexpectedEOF when it ends earlier.
	ReadAt(ctx context.Context, key string, p []byte, off int64) error
	// Stat returns an object's size in bytes, or not_found.
	Stat(ctx context.Context, key string) (int64, error)
	// List yields the objects whose key starts with prefix, ascending, a page
	// of the server's at a time. An error ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Item, error]
	// Delete removes an object; that there is none is no error.
	Delete(ctx context.Context, key string) error
	// Close gives up idle connections.
	Close()
}

// Item is one object of a listing.
type Item struct {
	Key  string
	Size int64 // bytes
}

// ErrExists is in the chain of the error of a conditional put that found an
// object.
var ErrExists = errors.New("the bucket has one already")
