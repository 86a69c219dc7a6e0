package providers

import (
	"context"
	"iter"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/record"
)

// Sources names who may have an object, beside its own providers.
type Sources struct {
	Peers []peer.AddrInfo // asked first; addresses may be left out for peers already connected
	Via   b3.Root         // a directory the object is part of, whose providers are asked before the object's own; zero for none
}

// Finder is the DHT. It yields providers as they are found, at most limit, and
// returns when ctx ends. Their records are verified.
type Finder interface {
	FindProviders(ctx context.Context, root b3.Root, limit int) iter.Seq2[record.Provider, error]
}

// Client is the client of the object protocol (OAP1.md §9).
type Client interface {
	Get(ctx context.Context, p peer.ID, req object.GetRequest, sink object.Sink) error
	// Have asks which of at most 1,024 objects p has. The answer is a claim.
	Have(ctx context.Context, p peer.ID, roots []b3.Root) ([]b3.Presence, error)
}

// Dialer learns how to reach a peer before the client opens a stream to it.
type Dialer interface {
	AddAddrs(peer.AddrInfo)
}

// Tasks is where goroutines are started: they belong to the resolver's Run.
type Tasks interface {
	// Context ends with Run.
	Context() context.Context
	// Go runs f in a goroutine that Run waits for. It returns false, and does
	// not run f, when Run is ending.
	Go(f func()) bool
}
