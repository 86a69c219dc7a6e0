package store

import (
	"context"
	"io"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// UploadOptions say what an upload is to become.
type UploadOptions struct {
	Length int64   // bytes that the whole has; it does not change
	Expect b3.Root // address that the whole must have; zero takes any
	Label  string  // whose quota it counts against, and that of its pin
	Pin    bool    // pin the object, not recursively, when it is whole
}

// Upload is what is known of an upload; a copy.
type Upload struct {
	ID string // 32 hex digits that nobody can guess
	UploadOptions
	Offset  int64     // bytes that are here and durable
	Expires time.Time // when it is removed, unless more comes before
	Root    b3.Root   // its address, once the object is visible; zero before
	New     bool      // of a visible one: the bytes were stored, not found there whole
}

// NewUpload begins an upload: an object that comes in pieces, and whose bytes
// survive a restart in between.
func (s *Store) NewUpload(ctx context.Context, o UploadOptions) (Upload, error) {
	return Upload{}, errNoUploads
}

// Upload returns what is known of an upload: not_found, or gone when it expired
// or was removed not long ago.
func (s *Store) Upload(ctx context.Context, id string) (Upload, error) {
	return Upload{}, errNoUploads
}

// AppendUpload adds what r gives, to its end, behind the first offset bytes.
func (s *Store) AppendUpload(ctx context.Context, id string, offset int64, r io.Reader) (Upload, error) {
	return Upload{}, errNoUploads
}

// RemoveUpload ends an upload and removes what came of it.
func (s *Store) RemoveUpload(ctx context.Context, id string) error { return errNoUploads }

var errNoUploads = status.Errorf(status.Unsupported, "store: this store takes no uploads in pieces; send the object in one piece")
