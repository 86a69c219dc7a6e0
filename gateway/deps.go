package gateway

import (
	"context"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/client"
	"allium/protocols/admission"
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

// Content is one object being read. It is used by one goroutine at a time.
type Content interface {
	// Size is the object's size in bytes, a proved fact.
	Size() int64
	// Copy writes bytes [start, end), 0 ≤ start ≤ end ≤ Size, to w in order.
	// Each write holds bytes that were verified before it, a chunk group at
	// most, so the first one need not wait for the last; w does not keep them.
	// An error of w is returned as it is. Copy ends when ctx does.
	Copy(ctx context.Context, w io.Writer, start, end int64) error
	// Encode is Copy of the range's verified encoding, as protocols/bao makes it:
	// each write ends with a chunk group, and the proof that leads to it comes
	// before it. The range of an object that is not empty is not.
	Encode(ctx context.Context, w io.Writer, start, end int64) error
	io.Closer // ends what reads on for this Content
}

// Node answers the local API; see [client.Node].
type Node = client.Node

// Deps is what a Gateway works with. Objects, Node and Ready are needed.
type Deps struct {
	Objects      Objects
	Node         Node
	Ready        func() client.Readiness // cheap, never waits
	Version      client.Version
	Capabilities Capabilities // nil: over TCP nothing can be changed
	Uploads      Uploads      // nil: nothing can be uploaded but with the local API
	Audit        Audit        // nil: nothing is recorded
	Denylist     Denylist     // nil: nothing is denied
	Socket       string       // path of the Unix socket (client.SocketPath); empty: none
	ACMEDir      string       // where ACME keeps its account and certificates; empty: in RAM

	Log      *slog.Logger          // nil discards
	Metrics  prometheus.Registerer // nil: not registered
	Gatherer prometheus.Gatherer   // what /metrics shows; nil: nothing
	Limits   *admission.Registry   // nil: listed nowhere
}
