package upload

import (
	"context"
	"io"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
)

// Store stores what clients send. What it acknowledges is verified and
// durable, and nothing of it is visible before.
//
// Every method may refuse with busy while the node takes no writes, and with
// not_allowed where it holds no content.
type Store interface {
	// Present tells of an object that is here whole, and pins it when o says so.
	// not_found is not an error: ok is false.
	Present(ctx context.Context, root b3.Root, o Options) (s api.Stored, ok bool, err error)
	// Put stores what r gives, to its end. What can refuse it does before r is
	// read: no_space and quota, as far as o.Length says. Bytes that do not hash
	// to o.Expect are bad_digest, and nothing of them stays.
	Put(ctx context.Context, r io.Reader, o Options) (api.Stored, error)

	// New begins an upload that comes in pieces. o.Length is known.
	New(ctx context.Context, o Options) (Upload, error)
	// Upload tells how far one is; not_found, or gone for some time after it
	// expired or was removed.
	Upload(ctx context.Context, id string) (Upload, error)
	// Append adds what r gives, to its end, at offset: conflict when that is not
	// how far the upload is, or another append is under way; body_cap when r
	// gives more than is missing. What arrived before an error is kept, and the
	// Upload tells how much that is, if its ID is set. With the last byte the
	// whole is stored; bad_digest removes it instead.
	Append(ctx context.Context, id string, offset int64, r io.Reader) (Upload, error)
	// Remove gives an upload up.
	Remove(ctx context.Context, id string) error
}

// Options say what an upload is held to.
type Options struct {
	Length int64   // bytes; −1: not known
	Expect b3.Root // its address; zero takes any
	Pin    bool    // keep it
	Label  string  // of the pin, whose quota it counts against
}

// Upload is an upload that comes in pieces, as it is at one moment.
type Upload struct {
	ID string
	Options
	Offset  int64       // bytes that are durable
	Expires time.Time   // when it is given up, unless more arrives
	Stored  *api.Stored // the object, once it is stored
}
