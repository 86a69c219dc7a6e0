// Package guard bounds what strangers ask of discovery (SPEC §2): it stands in
// front of go-libp2p-kad-dht's stream handler, which has no limits of its own,
// and the provider exchange asks it too, so that both share one allowance.
//
// A request passes, in this order: the requests in flight and the rate of its
// peer; the requests in flight, the bytes and the rate of all peers together.
// Then it takes a worker's place, for which a bounded number may wait.
//
// Invariants:
//
//   - a peer that is over its own allowance takes nothing of the others';
//   - a refusal is typed (status.Quota, RateLimit or Busy, with the limit and
//     its numbers), counted, and gives back all that was taken before it;
//   - kad-dht sees no byte of a message before the whole of it has arrived and
//     been admitted; a worker's place is held neither while a message arrives
//     nor while its answer is sent;
//   - what a message took is given back exactly once: the worker's place when
//     the answer begins, the rest when the handler reads on or returns. A
//     handler that closed or reset its stream is at work until it returns;
//   - an account with requests in flight is never forgotten; of the others,
//     the 4,096 that asked last are remembered.
//
// One message, walked through: kad-dht reads. The guard reads the length before
// the message, refuses one that is too long before it allocates anything,
// admits the message, reads it within 5 s of its first byte, waits for a
// worker's place and hands it over. kad-dht answers: the place is free again,
// and the answer has 5 s. kad-dht reads on: the message is no longer in flight.
// Refused at any step, the stream is reset with a code that says why:
// StreamRateLimited, StreamResourceLimitExceeded, StreamProtocolViolation for a
// length that will never be taken, StreamGarbageCollected for a peer that
// stalls, StreamShutdown when the guard does not run.
package guard
