// Package object transfers objects between nodes: it is the client and the server
// of get and have (OAP1.md §9) on /oap/1/object streams.
//
// # Invariants
//
//   - A [Server] sends only verified items. It reads an item into the frame, and
//     the item becomes part of the frame only after it hashed to the address.
//   - A [Sink] gets only verified items: a [b3.Proved] comes only from a verifying
//     walk. A size is a claim until the last group is verified.
//   - Exactly one goroutine writes to a stream. On the server it answers the queued
//     requests in order. On the client it is the caller of Get or Have; a stream
//     belongs to one request at a time.
//   - A stream whose answer is incomplete is reset and never reused.
//   - A peer that sends a frame, or reads an answer, slower than Config.MinRate
//     loses the stream. Time that this node needs itself does not count.
//   - Buffers are charged to the egress budgets before they are allocated. A
//     stream that waits for a request or for a budget holds no buffer.
//
// # One request
//
// [Client.Get] waits until it may use a stream to the peer (pool.enter), takes an
// idle stream or opens one, and sends a REQ frame. On the server, served.read
// decodes the request, counts it against the peer and queues it. served.write
// takes a serving permit and opens each object. The walk over the requested ranges
// reads and verifies each item directly in the outgoing frame. Small frames are
// combined into one write.
//
// On the client, each frame goes to getAnswer.frame, which makes the same walk.
// Each item that the walk accepts goes to the sink. After the last status the
// stream returns to the pool. If an item does not match the walk in order, length
// or hash, the request ends and the stream is reset. The sink keeps the items
// verified so far, and the caller can request the rest from another peer.
package object
