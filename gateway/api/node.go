package api

import (
	"context"
	"io"
	"iter"

	"allium/protocols/b3"
)

// Reader is what can be read, of a node or through a gateway, proved in either
// case. A key is "b3:<hex>[/path]"; an error carries an outcome (status.Of).
//
// A sequence yields values as they come and at most one error, which ends it;
// stopping early stops the work behind it.
type Reader interface {
	// Get returns a file's bytes or a directory as a tar stream, verified.
	Get(ctx context.Context, key string) (*Stream, error)
	// Cat returns bytes [r.Start, r.End) of a file, verified.
	Cat(ctx context.Context, key string, r Range) (*Stream, error)
	// List yields the entries of a directory in bytewise order of their names.
	List(ctx context.Context, key string) iter.Seq2[Entry, error]
	// Diff yields the entries that are not the same in what two keys name, in the
	// order of a walk: a directory before what is in it. An empty key names
	// nothing, so that everything is added or removed. Of directories only what
	// differs is read, and of files nothing.
	Diff(ctx context.Context, from, to string) iter.Seq2[Change, error]
	// Files returns 1 to MaxRoots files as a tar stream, verified, in that order
	// and named by their digests.
	Files(ctx context.Context, roots []b3.Root) (*Stream, error)
	// Stat describes an object and what this node has of it.
	Stat(ctx context.Context, key string) (Stat, error)
}

// Store is the part of the API that needs no network.
type Store interface {
	Reader
	// Add stores a tar stream. What stands at the top level of the tar is what
	// is added: each gives one Added, in order, once it is durable and, unless
	// o.NoPin, pinned. Names of the tar are never used as paths of the machine.
	Add(ctx context.Context, tar io.Reader, o AddOptions, progress ProgressFunc) iter.Seq2[Added, error]
	// Keep says for each of 1 to MaxRoots objects whether the store holds it
	// whole. What it holds is kept as if it were used now. A store in RAM, which
	// keeps nothing for long, answers with amnesia.
	Keep(ctx context.Context, roots []b3.Root) ([]bool, error)
	// Verify reads objects again and proves them; an empty key is every object
	// in the store, and what pins promise and is not there. A bad object is a
	// value, not an error; with o.Repair it is fetched again first.
	Verify(ctx context.Context, key string, o VerifyOptions) iter.Seq2[Verified, error]
	// Pin keeps an object, and with o.Recursive what it leads to.
	Pin(ctx context.Context, key string, o PinOptions) (Pin, error)
	// Unpin removes the pin with that label (empty: all of the object's pins).
	Unpin(ctx context.Context, key, label string) error
	// GC removes objects that nothing holds, those used least recently until the
	// low-water mark or all. removed is told each, if o.List; its error ends the
	// collection.
	GC(ctx context.Context, o GCOptions, progress ProgressFunc, removed func(GCObject) error) (GCReport, error)
	// Damage lists what recoveries and checks found of the store that is not what
	// was written there.
	Damage(ctx context.Context) (DamageReport, error)
	// AcceptDamage ends all open damage: what is lost is lost. It returns what was
	// open, and is accepted now.
	AcceptDamage(ctx context.Context) (DamageReport, error)
	// StatStore says what the store holds, from counters.
	StatStore(ctx context.Context) (StoreStat, error)
	// GCWhy says what keeps an object, which need not be here.
	GCWhy(ctx context.Context, key string) (GCWhy, error)
	// Pins yields the pins by address.
	Pins(ctx context.Context) iter.Seq2[Pin, error]
}

// Node is the whole API.
type Node interface {
	Store

	// Fetch brings an object, with everything below it if it is a directory,
	// into the store.
	Fetch(ctx context.Context, key string, progress ProgressFunc) (Fetched, error)
	// FindProviders yields who says to have the object, as they are found.
	FindProviders(ctx context.Context, key string, o FindOptions) iter.Seq2[Provider, error]
	// Announce tells the network that this node provides the object.
	Announce(ctx context.Context, key string) (Announced, error)

	// ID is who the node is and where it listens.
	ID(ctx context.Context) (ID, error)
	// Peers lists the connections.
	Peers(ctx context.Context) ([]Peer, error)
	// Seeds lists the seeds and says what is known of the network without them.
	Seeds(ctx context.Context) (Seeds, error)
	// Connect dials a peer's multiaddr (with /p2p/…).
	Connect(ctx context.Context, addr string) (Peer, error)
	// Disconnect closes every connection to a peer, given by its id.
	Disconnect(ctx context.Context, peer string) error
	// Ping measures one round trip to a peer, given by id or multiaddr.
	Ping(ctx context.Context, peer string) (Pong, error)

	// Faults says what the node does wrong on purpose.
	Faults(ctx context.Context) (Faults, error)
	// SetFaults replaces what the node does wrong on purpose, all of it, and
	// returns what holds now. It is unsupported unless node.profile is testnet.
	SetFaults(ctx context.Context, f Faults) (Faults, error)

	// Reload lets the node read its files again: what cannot be read leaves what
	// was read of it before in force.
	Reload(ctx context.Context) (Reloaded, error)
	// Drain begins the orderly shutdown of SPEC §10 and returns when it has
	// begun.
	Drain(ctx context.Context) error
}

// ProgressFunc is told how far a request has come. It returns at once and may
// be called from any goroutine, at any rate; nil means nobody asks.
type ProgressFunc func(Progress)
