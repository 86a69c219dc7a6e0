package api

import (
	"context"
	"io"
	"iter"

	"allium/protocols/b3"
)

// Reader reads objects from a node or through a gateway. In both cases their bytes are
// verified. A key is "b3:<hex>[/path]". Every error has an outcome (status.Of).
//
// A sequence yields each value as soon as it is known, and at most one error, which
// ends it. When the caller stops early, the work for the sequence stops too.
type Reader interface {
	// Get returns a file's bytes or a directory as a tar stream, verified.
	Get(ctx context.Context, key string) (*Stream, error)
	// Cat returns bytes [r.Start, r.End) of a file, verified. End −1 is its end.
	Cat(ctx context.Context, key string, r b3.Range) (*Stream, error)
	// List yields the entries of a directory in bytewise order of their names.
	List(ctx context.Context, key string) iter.Seq2[Entry, error]
	// Diff yields the entries that differ between two keys, a directory before its
	// entries. With an empty key, every entry of the other key is added or removed.
	// Diff reads only directories that differ, and no files.
	Diff(ctx context.Context, from, to string) iter.Seq2[Change, error]
	// Files returns 1 to MaxRoots files as a tar stream, verified, in the given order.
	// Their names are their digests.
	Files(ctx context.Context, roots []b3.Root) (*Stream, error)
	// Stat describes an object and says whether this node has all of it.
	Stat(ctx context.Context, key string) (Stat, error)
}

// Store is the part of the API that needs no network.
type Store interface {
	Reader
	// Add stores a tar stream. Each entry at the top level of the tar yields one
	// Added, in order, once it is durable and, unless o.NoPin is set, pinned. Names in
	// the tar are never used as paths on the node's file system.
	Add(ctx context.Context, tar io.Reader, o AddOptions, progress ProgressFunc) iter.Seq2[Added, error]
	// Keep reports for each of 1 to MaxRoots objects whether the store has the whole
	// object. Objects that it has count as used now. A store in RAM returns amnesia,
	// because it keeps nothing for long.
	Keep(ctx context.Context, roots []b3.Root) ([]bool, error)
	// Verify reads objects again and verifies them. An empty key means every object in
	// the store, and every object that pins promise and that is missing. A bad object
	// is a value, not an error. With o.Repair it is fetched again first.
	Verify(ctx context.Context, key string, o VerifyOptions) iter.Seq2[Verified, error]
	// Pin keeps an object in the store, and with o.Recursive everything below it.
	Pin(ctx context.Context, key string, o PinOptions) (Pin, error)
	// Unpin removes the pin with that label (empty: all of the object's pins).
	Unpin(ctx context.Context, key, label string) error
	// GC removes objects that nothing holds: the least recently used ones down to the
	// low-water mark, or with o.All every one. With o.List it calls removed for each;
	// an error of removed ends the collection.
	GC(ctx context.Context, o GCOptions, progress ProgressFunc, removed func(GCObject) error) (GCReport, error)
	// Damage lists the places in the store that recoveries and checks found damaged.
	Damage(ctx context.Context) (DamageReport, error)
	// AcceptDamage ends all open damage and gives up the data that is lost. It returns
	// the damage that it accepted.
	AcceptDamage(ctx context.Context) (DamageReport, error)
	// StatStore says what the store holds, from counters.
	StatStore(ctx context.Context) (StoreStat, error)
	// GCWhy says what keeps an object. The store need not have the object.
	GCWhy(ctx context.Context, key string) (GCWhy, error)
	// Pins yields the pins by address.
	Pins(ctx context.Context) iter.Seq2[Pin, error]
}

// Node is the whole API.
type Node interface {
	Store

	// AskFirst returns the same node, whose Get, Cat, List, Stat, Files and Fetch ask these
	// peers before others. Each is a peer ID or a multiaddr with /p2p/ID; there are at most
	// MaxAsked. It starts nothing and needs no Close.
	AskFirst(peers []string) (Node, error)

	// AskPeer asks a peer, a peer ID or a multiaddr with /p2p/ID, how much it has of the object that key
	// names. What it says is a claim. AskPeer takes at most 5 s.
	AskPeer(ctx context.Context, peer, key string) (PeerHas, error)
	// Fetch downloads an object into the store. With a directory it downloads
	// everything below it.
	Fetch(ctx context.Context, key string, progress ProgressFunc) (Fetched, error)
	// Share makes a ticket for an object that the store holds, and pins it with everything below
	// it. The pin has the label "shared", for which the object is not announced. If the node knows
	// a peer, Share waits up to 5 s until one has confirmed an address, or a relay is there.
	Share(ctx context.Context, key string, o ShareOptions) (Shared, error)
	// Resolve finds the object that a key names and its providers.
	Resolve(ctx context.Context, key string, q Query) (Resolved, error)
	// FindProviders yields the other peers that claim to have the object, the best first.
	FindProviders(ctx context.Context, key string, o FindOptions) iter.Seq2[Provider, error]
	// Why returns the record of a lookup: the one with that ID, or the latest one of that
	// key that was not answered at once. The latest lookups are remembered, and failed and
	// slow ones longer than others.
	Why(ctx context.Context, keyOrID string) (Why, error)
	// Durability says how far the node is with the copies that pins ask for. A node that joins no cluster returns
	// unsupported.
	Durability(ctx context.Context) (Durability, error)
	// ObjectDurability says what the node knows of the copies of one object, and with explain where they belong. The
	// error is not_found if no pin asks for copies.
	ObjectDurability(ctx context.Context, key string, explain bool) (ObjectDurability, error)
	// AwaitCopies waits until an object, and everything below it that is stored here, has the copies that t asks for,
	// whatever others ask; nil stands for all that pins ask for. Progress counts objects. The error is not_ready if the
	// cluster cannot hold them now, or none came for some minutes; the node goes on.
	AwaitCopies(ctx context.Context, key string, t *Target, progress ProgressFunc) (Placed, error)
	// ResumeCopies ends the time in which the node sends only last copies because more than a third of the members
	// vanished together. It does not begin again because of those that are silent now.
	ResumeCopies(ctx context.Context) (Resumed, error)
	// Evacuate has the node hand its copies over to other members of its cluster, and yields how far it is about once a
	// second, until none is needed here. The node goes on when the caller leaves, and after a restart, until
	// StopEvacuation. The error is not_ready if others cannot hold the copies now, and conflict if everything is handed
	// over but pins that ask for no copies.
	Evacuate(ctx context.Context) iter.Seq2[Evacuation, error]
	// StopEvacuation makes the node a full member of its cluster again. It changes nothing for one that is.
	StopEvacuation(ctx context.Context) error
	// Announce tells the network that this node provides the object.
	Announce(ctx context.Context, key string) (Announced, error)

	// ExpandName returns the name, with the key of its zone, that LABEL.ZONE stands for,
	// where ZONE is a key or a short name. A LABEL alone is in the only own zone.
	ExpandName(ctx context.Context, text string) (string, error)
	// PublishName signs a record of a name in an own zone, writes it, and sends it to the
	// peers. That no peer took it is no error: the node sends it again.
	PublishName(ctx context.Context, r PublishRequest) (OwnName, error)
	// WithdrawName publishes that a name has no value any more.
	WithdrawName(ctx context.Context, r WithdrawRequest) (OwnName, error)
	// OwnNames yields the names that this node publishes, in the order of their zones.
	OwnNames(ctx context.Context) iter.Seq2[OwnName, error]

	// ID returns the node's peer id and the addresses where it listens.
	ID(ctx context.Context) (ID, error)
	// Peers lists the connections.
	Peers(ctx context.Context) ([]Peer, error)
	// Reach says from where the node can be dialled, and what its operator can do about it.
	Reach(ctx context.Context) (Reach, error)
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

	// Reload lets the node read its files again. If a file cannot be read, its old
	// content stays in force.
	Reload(ctx context.Context) (Reloaded, error)
	// Drain begins the orderly shutdown of SPEC §10 and returns when it has
	// begun.
	Drain(ctx context.Context) error
}

// MaxAsked bounds the peers and addresses of AskFirst.
const MaxAsked = 16

// ProgressFunc receives the progress of a request. It must return at once. It may be
// called from any goroutine and at any rate, but not by two at once. A nil ProgressFunc is not called.
type ProgressFunc func(Progress)
