// Package allowance bounds the discovery requests that strangers make of this node (SPEC §2). It
// wraps go-libp2p-kad-dht's stream handler, which has no limits. The provider exchange uses the
// same [Guard], so both protocols share one allowance.
//
// A request takes, in this order: a place among the requests in flight and a rate token of
// its peer; then a place, bytes and a rate token among all peers. It then takes a worker,
// for which a bounded number of requests may wait.
//
// Invariants:
//
//   - A peer that exceeds its own allowance takes nothing from other peers.
//   - A refusal is typed (status.Quota, RateLimit or Busy, with the limit and its numbers)
//     and counted. It returns everything that the request took before.
//   - kad-dht reads no byte of a message before the whole message has arrived and been
//     admitted. A request holds its worker neither while it arrives nor while its response
//     is sent.
//   - Everything that a message took is released exactly once: the worker when the response
//     begins, the rest when the handler reads the next message or returns. A handler that
//     closed or reset its stream counts as working until it returns.
//   - The account of a peer with requests in flight is never forgotten. The 4,096 most recently used of the other
//     accounts are remembered.
//
// One message: kad-dht reads from its stream. The guard reads the message's length and
// refuses one that is too long before it allocates. It admits the message ([Guard.Admit]),
// reads it within 5 s of its first byte, waits for a worker ([Guard.Work]), and hands the
// message over. When kad-dht writes the response, the worker is free again, and the
// response has 5 s. When kad-dht reads again, the message is no longer in flight.
//
// A refusal at any step resets the stream with a code: StreamRateLimited,
// StreamResourceLimitExceeded, StreamProtocolViolation for a length that is never
// accepted, StreamGarbageCollected for a peer that stalls, and StreamShutdown while the
// guard does not run.
package allowance
