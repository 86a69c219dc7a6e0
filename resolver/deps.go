package resolver

import (
	"context"
	"log/slog"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/resolver/providers"
	"allium/resolver/transfer"
)

// Local is the node's own store, as the resolver needs it. Errors carry an
// outcome of protocols/status.
type Local interface {
	transfer.Local
	// Put stores the object root, whose bytes are p, and does not keep p. It is
	// durable, and visible, after the next Flush at the latest.
	Put(ctx context.Context, root b3.Root, p []byte) error
	// Flush makes everything that was put or committed before it durable.
	Flush(ctx context.Context) error
}

// What the resolver needs of the store and says of transfers.
type (
	// Ingest is an object being stored.
	Ingest = transfer.Ingest
	// OpenOptions say which bytes of an object are wanted and who may have them.
	OpenOptions = transfer.Options
	// RangeError is a range that begins behind the end of the object.
	RangeError = transfer.RangeError
	// Progress is how far a fetch has come.
	Progress = transfer.Progress
)

// ToEnd is the End of a range that reaches to the end of the object.
const ToEnd = transfer.ToEnd

// Whole asks for a whole object.
func Whole(from Sources) OpenOptions { return transfer.Whole(from) }

// What the resolver says of providers.
type (
	// Sources names who may have an object, beside its own providers.
	Sources = providers.Sources
	// ProvidersOptions say how to look for providers.
	ProvidersOptions = providers.FindOptions
)

// Deps are what the resolver works with. Log, Metrics and Limits may be nil.
type Deps struct {
	Local     Local
	Providers providers.Finder
	// Hints lists who announced an object of late, at most 20, at once and from
	// memory; nil: nobody. Two are asked before the DHT is, whose lookup
	// begins when they are not enough, or do not answer; the others after it.
	Hints   func(root b3.Root) []record.Provider
	Objects providers.Client
	Dialer  providers.Dialer
	// Denied says why an object must not be fetched, nor read through the
	// resolver; nil: everything may. It must not block.
	Denied func(root b3.Root) error

	Self peer.ID // never asked; empty when the node has no identity yet

	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  *limits.Registry
}
