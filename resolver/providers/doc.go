// Package providers knows the peers that may have an object: it finds them,
// remembers how they did, and asks one of them at a time.
//
// Invariants:
//
//   - One lookup of a root runs at a time, however many callers follow it; its
//     result is remembered for a while, also when nobody has the object.
//   - Each peer of a list of [Candidates] comes once, and the node itself never.
//   - A peer that fails too often is left alone until its breaker lets probes
//     through, and no peer has more than Config.PeerRequests requests at a time.
//   - A request ends when nothing verified arrives for Config.StallTimeout.
//
// The package starts nothing: lookups run as [Tasks] of the caller.
package providers
