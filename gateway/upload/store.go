package upload

import (
	"context"
	"io"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

// Store stores uploads. An object that it acknowledges is verified and durable, and nothing of
// it is visible before. It is safe for concurrent use.
//
// Every method may return busy while the node takes no writes, and not_allowed on a node that
// stores no content.
type Store interface {
	// Present reports whether the store has the whole object, and pins it if o.Pin is true. An
	// absent object is no error: ok is false.
	Present(ctx context.Context, root b3.Root, o Options) (s api.Stored, ok bool, err error)
	// Put stores the bytes of r up to io.EOF. It returns no_space and quota before it reads r,
	// if o.Length is known. It returns bad_digest for bytes that do not hash to o.Expect, and
	// then stores nothing.
	Put(ctx context.Context, r io.Reader, o Options) (api.Stored, error)

	// PutTree stores the directory that an archive holds. Entries that no directory can hold are treated as
	// t.OnBadEntry says. A malformed archive is bad_request, one that becomes too large is decompress_cap, and
	// one with too many entries is body_cap; none of them stores anything that is visible. An error of t.Count
	// ends it likewise.
	PutTree(ctx context.Context, t Tree, o Options) (api.Added, error)

	// New starts a resumable upload. o.Length is known. The upload counts against the share of
	// the capability by, and ends with it. It returns busy if there is no place for the upload.
	New(ctx context.Context, by capability.Grant, o Options) (Upload, error)
	// Upload returns the state of a resumable upload. It returns not_found for an unknown one,
	// and gone for some time after it expired or was removed.
	Upload(ctx context.Context, id string) (Upload, error)
	// Append appends the bytes of r at offset. It returns conflict if the upload has another
	// offset or another Append runs, and body_cap if r has more bytes than are missing. Bytes
	// that arrived before an error stay; if the returned Upload has an ID, its Offset counts
	// them. The last byte stores the object. bad_digest removes the upload instead.
	//
	// The capability by may be another than that of New. If its label is not that of the
	// upload's pin, the pin gets it, or the error is forbidden if the pin has a label already.
	Append(ctx context.Context, by capability.Grant, id string, offset int64, r io.Reader) (Upload, error)
	// Remove removes an upload and its bytes.
	Remove(ctx context.Context, id string) error
}

// Format is the format in which the entries of a directory arrive.
type Format uint8

// The formats of archives.
const (
	Tar Format = iota
	Zip
	Form // files of a form, one after the other
)

// Tree is a directory in an archive that any program made.
type Tree struct {
	Format Format
	Body   io.Reader // of Tar and Zip
	// Next returns the next file of a Form, io.EOF after the last one. The body is read until its end before
	// the next call.
	Next  func() (name string, body io.Reader, err error)
	Ratio int64 // how many times its size a Zip may decompress to
	// Count is called with the bytes of files that the directory gets, at the latest before they are stored. nil:
	// they are not bounded.
	Count      func(n int64) error
	OnBadEntry api.OnBadEntry
}

// Options are the properties that a request gives an upload.
type Options struct {
	Length int64   // bytes; −1: not known
	Expect b3.Root // the address that the bytes must have; zero: any
	Pin    bool    // pin the object
	Label  string  // label of the pin, whose quota the object counts against
}

// Upload is the state of a resumable upload.
type Upload struct {
	ID string
	Options
	Offset  int64       // durable bytes
	Expires time.Time   // when the upload is removed, unless more arrives
	Stored  *api.Stored // the object, once it is stored
}
