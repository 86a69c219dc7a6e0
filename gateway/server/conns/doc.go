// Package conns limits the connections of an HTTP server, and cuts off the clients that take nothing of their answers.
//
// A [Listener] accepts connections within its limits. When it is full, a client with many connections loses one to a
// client with fewer: first one without a first header, then an idle one, then one with a slow transfer (evictQueue,
// [Transfers]). A [Transfer] has the connection measure what the client acknowledges (progress), and an answer over
// HTTP/2 has a watch of its own (streamWatch), because other streams may go on. [HeaderWriter] writes the headers of
// HTTP/1, and [HalfClosed] reads the connections of HTTP/2 whose answers are not all read yet.
//
// Invariants:
//
//   - Each connection and each transfer is counted until it is closed or evicted, and gives its place back once.
//   - An eviction never waits for the connection: the goroutine that reads or writes it ends it.
//   - A client that acknowledges a byte within the stall time is never cut off for being slow.
package conns
