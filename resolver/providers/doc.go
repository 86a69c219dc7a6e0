// Package providers finds the peers that may have an object, ranks them, keeps measurements of each peer, and sends
// requests to them. Fetches, the API and the gateway all reach providers through it.
//
// Invariants:
//
//   - One lookup of a root asks the DHT at a time, for any number of callers. A caller
//     that gives up does not cancel it for the others. At most Config.Lookups run.
//   - The results of lookups, and the answers that are made of them, are remembered for Config.PositiveTTL, or for
//     Config.NegativeTTL when no peer has the object, each ± 10 %, and never past the end of a record. The cache is
//     bounded by entries and by bytes.
//   - [Pool.Resolve] ends within Config.Deadline, whatever is stuck.
//   - A list of [Candidates] contains each peer once, and never this node.
//   - A peer that fails too often gets no request until its circuit breaker lets
//     probes through. No peer has more than Config.PeerRequests requests at a time.
//   - A request ends when nothing verified arrives for Config.StallTimeout.
//
// One search: [Pool.Resolve] looks in the cache, asks the store of this node, takes the
// peers that served the object and those that announced it by gossip, and then joins
// the lookup of the root or starts one. A lookup that fails in a way that may pass is
// tried again after a pause. [Rank] sorts what was found.
//
// One request: a transfer calls [Pool.Candidates] and reads peers with
// [Candidates.At]. When the named and the announced peers are used up, At joins
// the lookup of the root or starts one. For each peer the transfer calls
// [Pool.Get], which waits for the peer's gate, asks its breaker, sends the request
// and ends it when the peer stalls. The transfer records the result with
// [Attempts.Note]; when all peers have failed, [Attempts.Error] is the error of
// the fetch. A peer that did not have what it announced ranks lower from then on.
//
// The package owns no goroutine: lookups run as [Tasks] of the caller.
package providers
