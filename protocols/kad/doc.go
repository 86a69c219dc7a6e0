// Package kad provides the Kademlia lookup as a pure state machine (SPEC §5).
// The driver passes in events and the current time, and carries out the actions
// that the machine returns. The package starts no goroutine, sends nothing, reads no
// clock and logs nothing. A driver over libp2p, a simulation in virtual time and
// a golden trace therefore run the same code.
//
// Invariants of every lookup, whatever the peers answer:
//
//   - No peer is asked twice, and the node itself is never asked.
//   - At most α + β probes are in flight, and at most α before the hedge delay.
//   - A lookup ends at its deadline at the latest. It sends at most MaxProbes probes.
//   - At the end, every probe in flight is canceled. No action follows.
//   - The result is the k closest of the peers that answered, nearest first.
//   - The same events at the same times give the same actions.
//
// One lookup, step by step:
//
//  1. [New] takes a [Query]: the target, and the [Quorum] that ends the lookup early.
//  2. [Lookup.Start] takes the nearest peers of the routing table (hop 1) and
//     returns α [Probe] actions. The driver sends one request for each.
//  3. The driver passes each response to [Lookup.Answer] and each error to
//     [Lookup.Fail]. Peers that a response names are one hop farther than the peer
//     that named them. Both methods may return further probes.
//  4. The driver calls [Lookup.Tick] at the time that [Lookup.Next] returns.
//  5. A probe that has no response after its hedge delay is late. A late probe no
//     longer delays the end, and another probe takes its slot ([Hedge]). Its
//     response still counts unless its slot was needed again.
//  6. When the first of the first α probes is due to be late and the quorum is not
//     met, the limit on probes that are not late rises from α to α + β.
//  7. A probe that has no response after the RPC timeout fails and is canceled.
//  8. The lookup returns [Done] when the quorum is met, when the k closest peers
//     have answered, or when the deadline, the hops or the probes are used up.
//
// The package knows no addresses: a peer that cannot be dialed is a failure like
// any other.
package kad
