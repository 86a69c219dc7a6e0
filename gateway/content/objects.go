package content

import (
	"context"
	"io"

	"allium/protocols/b3"
)

// Opener opens objects. It reads them from the local store, joins a download that is under
// way, or finds and fetches them from peers.
type Opener interface {
	// Open returns as soon as the object's size is proved. It returns not_found for an
	// object that it cannot find. Every error carries an outcome. The caller closes the
	// Content.
	Open(ctx context.Context, root b3.Root, o OpenOptions) (Content, error)
}

// Objects are all the objects that a gateway serves.
type Objects interface {
	Opener
	// Memory returns the verified bytes of an object that is in RAM, and nil for any other
	// object and for the empty one. It never waits. The caller must not change the bytes.
	Memory(root b3.Root) []byte
}

// OpenOptions say where to look for an object and how much of it is needed.
type OpenOptions struct {
	LocalOnly bool    // return not_found rather than ask the network
	Whole     bool    // the caller copies all of it, so a fetch may request the bytes together with the size
	Via       b3.Root // a directory that holds the object, whose providers may have it too; zero for none
}

// Content is one open object.
type Content interface {
	b3.Content
	// Encode writes the verified encoding of the range [start, end), as package bao defines
	// it. Each write ends with a chunk group, and the proof of a group precedes it. The range
	// is empty only for the empty object.
	Encode(ctx context.Context, w io.Writer, start, end int64) error
}
