package object

import (
	"context"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/b3"
)

// ProtocolID is the libp2p protocol of object streams (OAP1.md §5).
const ProtocolID = protocol.ID("/oap/1/object")

// The bounds of OAP1.md §9.
const (
	MaxGet  = 256 // most objects of one get
	MaxHave = 896 // most objects of one have
	MaxPut  = 256 // most objects of one put

	MaxTold      = 1024     // most objects of one put that says something of them
	MaxToldBytes = 4 << 20  // most bytes of these objects together
	MaxAbout     = 10 << 10 // most bytes of what it says: they fit into the JSON of a request beside so many objects
	MaxReply     = 2 << 10  // most bytes of what the receiver says of an object

	MaxGroups = 1 << 16 // most groups of one have
)

// MaxObject is the largest size of an object in bytes: the largest integer that
// JSON represents exactly.
const MaxObject = 1<<53 - 1

// The codes of stream resets, besides those of OAP1.md §3 (0xA100 …) and libp2p.
// They only inform the other side.
const (
	codeCanceled network.StreamErrorCode = 0xA200 + iota // the caller canceled the request
	codeCorrupt                                          // bytes do not hash to the address
	codeUpstream                                         // the answer breaks OAP1.md §9
	codeTimeout                                          // no progress
	codeInternal                                         // a bug in this node
)

// Object is an open local object, whole or in part. The server verifies every item
// before it sends it.
type Object interface {
	b3.Object
	// Covers reports whether the store has bytes [start, end).
	Covers(start, end int64) bool
}

// Store is the store that a [Server] serves from. Its errors carry an outcome. An
// error without one is internal, and the peer learns no more than that.
type Store interface {
	// OpenObject opens an object. The error is not_found if the store has no part
	// of it.
	OpenObject(ctx context.Context, root b3.Root) (Object, error)
	// Presence returns how much of each object the store has, in the order of roots.
	Presence(ctx context.Context, roots []b3.Root) ([]b3.Presence, error)
}
