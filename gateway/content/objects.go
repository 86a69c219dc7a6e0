package content

import (
	"context"
	"io"

	"allium/protocols/b3"
)

// Opener opens content: local, in flight, or found and fetched from peers.
type Opener interface {
	// Open returns as soon as the object's size is proved. An object that is
	// not there is not_found; every error carries an outcome.
	Open(ctx context.Context, root b3.Root, o OpenOptions) (Content, error)
}

// Objects is all the content that a gateway serves.
type Objects interface {
	Opener
	// Memory returns the whole of an object, proved, where it lies in RAM, and nil
	// otherwise; the empty object is nil too. It never waits. Nobody changes the
	// bytes.
	Memory(root b3.Root) []byte
}

// OpenOptions say how hard to look.
type OpenOptions struct {
	LocalOnly bool    // not_found rather than ask the network
	Whole     bool    // all of it will be copied: what is not local may be asked for at once, with the size
	Via       b3.Root // a directory the object is part of, whose providers may have it too; zero for none
}

// Content is one object being read.
type Content interface {
	b3.Content
	// Encode is Copy of the range's verified encoding, as protocols/bao makes it:
	// each write ends with a chunk group, and the proof that leads to it comes
	// before it. The range of an object that is not empty is not.
	Encode(ctx context.Context, w io.Writer, start, end int64) error
}
