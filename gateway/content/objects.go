package content

import (
	"context"
	"io"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
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
	// Cached reports whether the object is in RAM or its file is open, and counts as a use of it. It never waits.
	Cached(root b3.Root) bool
}

// Served records that bytes from [Objects.Memory] answered a request, and returns the ID of that
// lookup. It never waits.
type Served func(root b3.Root) status.LookupID

// OpenOptions say where to look for an object and how much of it is needed.
type OpenOptions struct {
	LocalOnly bool    // return not_found rather than ask the network
	Whole     bool    // the caller copies all of it, so a fetch may request the bytes together with the size
	Via       b3.Root // a directory that holds the object, whose providers may have it too; zero for none

	// Admit is called before peers are asked for the rest of an object of the store whose damage shows
	// while it is read. The caller of Admit calls leave when the Content is closed. If Admit is nil and
	// LocalOnly is set, peers are not asked.
	Admit func(ctx context.Context) (leave func(), err error)

	From []peer.AddrInfo // peers that are asked before others; a request over HTTP never sets it
}

// Content is one open object.
type Content interface {
	b3.Content
	// Encode writes the verified encoding of the range [start, end), as package bao defines
	// it. Each write ends with a chunk group, and the proof of a group precedes it. The range
	// is empty only for the empty object.
	Encode(ctx context.Context, w io.Writer, start, end int64) error
}

// lookedUp is a [Content] that a lookup of the node found.
type lookedUp interface {
	LookupID() status.LookupID
}

// lookupOf returns the lookup that found c, or 0.
func lookupOf(c Content) status.LookupID {
	if l, ok := c.(lookedUp); ok {
		return l.LookupID()
	}
	return 0
}
