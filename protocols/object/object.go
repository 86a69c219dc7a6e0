package object

import (
	"context"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/b3"
)

// ProtocolID names the bulk stream (OAP1.md §5).
const ProtocolID = protocol.ID("/oap/1/object")

// Bounds of OAP1.md §9.
const (
	MaxGet  = 256 // objects of one get
	MaxHave = 896 // objects of one have
)

// MaxObject is the largest size, in bytes, that an object may claim: what a
// JSON integer holds exactly.
const MaxObject = 1<<53 - 1

// Codes that a stream is reset with, beside those of OAP1.md §3 (0xA100 …) and
// libp2p's own. They tell the other side why; nothing depends on them.
const (
	codeCanceled network.StreamErrorCode = 0xA200 + iota // the caller lost interest
	codeCorrupt                                          // bytes that do not hash to the address
	codeUpstream                                         // an answer that breaks OAP1.md §9
	codeTimeout                                          // no progress
	codeInternal                                         // a bug on our side
)

// Object is an open local object, whole or in part. The server proves every item
// before it leaves.
type Object interface {
	b3.Object
	// Covers reports whether bytes [start, end) are here.
	Covers(start, end int64) bool
}

// Store is what a [Server] serves from. Its errors carry a status; one without
// is internal, and the peer is not told more than that.
type Store interface {
	// OpenObject returns status not_found when nothing of the object is there.
	OpenObject(ctx context.Context, root b3.Root) (Object, error)
	// Presence answers for each of roots, in order.
	Presence(ctx context.Context, roots []b3.Root) ([]b3.Presence, error)
}
