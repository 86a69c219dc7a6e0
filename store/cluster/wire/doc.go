// Package wire carries the questions of the members of a cluster about copies of objects: the
// application protocol 4 of a session (OAP1 §4). A member has another one prove its copies, tells it
// targets and holders, and asks it for the lease of a copy too many.
//
// Invariants:
//
//   - [Server] answers only a request with a capability for capability.Replicate that the session
//     verified, of a peer that is a member. The body of another request is not decoded, but for the
//     address in a lease, which the capability may name.
//   - [Client] takes a copy as proved only after it checked the proof against the address, for a chunk
//     that it drew itself and the size that it knows itself.
//   - A body is deterministic CBOR in its one encoding, within [MaxBody]; an answer is within
//     [MaxAnswer]. An answer has the results of the first objects of its request, at least one, and
//     the client asks again for those that did not fit.
//   - Proofs that are being made are bounded for all peers and for each. A challenge beyond that gets busy.
//
// One challenge: [Client.Challenge] draws a chunk of each object and sends their addresses and
// numbers. On the other node the session verifies the capability and calls [Server.Handle], which
// asks the [Holder] how it answers for each object, and has the proof made where it holds one. The
// client checks each proof; one that is wrong counts as [Absent].
package wire
