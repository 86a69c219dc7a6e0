// Package kad is the Kademlia lookup as a pure state machine (SPEC §5). Events
// and the time go in, actions come out. It starts nothing, sends nothing, reads
// no clock and logs nothing, so that a driver over libp2p, a simulation in
// virtual time and a golden trace run the same code.
//
// Invariants, of any lookup, whatever the answers say:
//
//   - no peer is asked twice, and the node itself never;
//   - at most α + β probes are in flight, and before the hedge delay at most α;
//   - it ends: at the deadline, or before it after at most MaxProbes probes;
//   - when it ends, every probe in flight is cancelled, and nothing follows;
//   - the result is the k closest of the peers that answered, nearest first;
//   - the same events at the same times give the same actions.
//
// One lookup, walked through. [New] takes a [Query]: the target, the [Quorum]
// that satisfies it. [Lookup.Start] takes the nearest peers of the routing
// table (hop 1) and returns α [Probe] actions; the driver sends them. Each
// answer goes to [Lookup.Answer] with the closer peers that it named (one hop
// more than the peer that named them), each error to [Lookup.Fail]; either may
// return further probes. When the time that [Lookup.Next] tells has come, the
// driver calls [Lookup.Tick]. When the hedge delay of the first probes has
// passed without an answer that satisfies, β more are in flight from then on. A
// probe without an answer after its own hedge delay is late: it stops holding up
// the end, and it gives its slot to another ([Hedge]), but its answer still
// counts unless the place is needed too. A probe without an answer after the RPC
// timeout is cancelled and has failed. The lookup ends with [Done] when the quorum is
// satisfied, when the k closest have answered, or when a budget is spent.
//
// Addresses are none of its business: a peer whose addresses lead nowhere is a
// failure like any other.
package kad
