// Package providers finds the peers that may have an object, keeps what was
// measured of each peer, and sends requests to them.
//
// Invariants:
//
//   - One lookup of a root runs at a time, for any number of callers. Its result
//     is cached for Config.PositiveTTL, or for Config.NegativeTTL when no peer has
//     the object.
//   - A list of [Candidates] contains each peer once, and never this node.
//   - A peer that fails too often gets no request until its circuit breaker lets
//     probes through. No peer has more than Config.PeerRequests requests at a time.
//   - A request ends when nothing verified arrives for Config.StallTimeout.
//
// One request: a transfer calls [Pool.Candidates] and reads peers with
// [Candidates.At]. When the named and the announced peers are used up, At joins
// the lookup of the root or starts one. For each peer the transfer calls
// [Pool.Get], which waits for the peer's gate, asks its breaker, sends the request
// and ends it when the peer stalls. The transfer records the result with
// [Attempts.Note]; when all peers have failed, [Attempts.Error] is the error of
// the fetch.
//
// The package owns no goroutine: lookups run as [Tasks] of the caller.
package providers
