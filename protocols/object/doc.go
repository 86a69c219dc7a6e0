// Package object moves objects between nodes: get and have of OAP1.md §9, both
// sides, over /oap/1/object streams.
//
// # Invariants
//
//   - Nothing unverified leaves a [Server]: an item is read into the frame and
//     becomes part of it only when it hashed to the address.
//   - Nothing unverified reaches a [Sink]: it is handed [b3.Proved], which only
//     a verifying walk makes. A size is a claim until an item says otherwise.
//   - Exactly one goroutine writes to a stream. On the server it answers what
//     the reader queued, in order; on the client it is the caller, and a stream
//     belongs to one request at a time.
//   - A stream whose answer did not come to its end is reset, never reused.
//   - A peer inside a frame, or with an answer to take, keeps the pace of Config
//     or loses the stream; time that a side needs for itself is not the peer's.
//   - Buffers are charged to the egress budgets before they are taken, and a
//     stream that waits, for a peer's question or for a budget, holds none.
//
// # One request, walked through
//
// [Client.Get] waits for one of the streams that it may have to the peer, takes
// an idle one or opens one, and sends a REQ frame. At the other end the
// stream's reader decodes it, counts it against the peer and queues it. The
// stream's writer takes a serving permit, opens each object and lets the walk of
// the asked ranges read and verify item by item straight into the frame that
// goes out; small frames leave together in one write. Back at the client each
// frame goes through getAnswer, which makes the same walk, and each item that
// the walk accepts reaches the sink. After the last status the stream goes back
// to the pool. Whatever does not fit the walk, in order, length or hash, ends
// the request there: the stream is reset, and what was verified before stays
// with the sink, so that another peer can be asked for the rest.
package object
