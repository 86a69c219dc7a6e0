// Package plan decides what one node of a cluster does so that objects have the copies
// that their pins ask for. It starts nothing, sends nothing and has no clock: members, proofs
// and the time go in, actions come out. A node over the network and a simulation in virtual
// time run the same code.
//
// Invariants, whatever other members do or say:
//
//   - A copy counts while its holder proves it. A holder that says it has a copy, and does not
//     prove it, does not count.
//   - A member that is silent for less than Params.Grace changes nothing.
//   - Members that may hold a copy are asked before a missing one is made. They have a grace to answer.
//   - An object is lost once it cannot be read from the copies that are known, and every member answered since then
//     that it holds none. See Standing.
//   - Nodes with the same members choose the same ones for an object. A member that joins or
//     leaves moves about its share of the capacity.
//   - A node drops a copy only after it proved twice, Params.TrimWait apart, that enough others
//     hold the object. From before the first proof on its own copy does not count, so two
//     holders that leave at once never count each other. A proof is as old as its challenge.
//   - While shards are missing and no member can take one, a holder drops a shard that another one proved as well, by
//     the same two proofs. Then it can take a missing one.
//   - No event makes a node drop a copy that one of its targets asks for. A copy that only removed targets asked for
//     does not count.
//   - A node's own target of an object always has a place. Those of others have MaxTargets - 1: an origin that is no
//     member makes room for one that is, then the one that asks for the fewest copies. What origins ask that are no
//     members counts only while no member asks, and for strangerCopies at most.
//   - Nobody changes what a node asks for. When it hears something else in its name, it tells its target with a number
//     above that.
//   - A holder tells an origin that has no copy. So one that was away learns that the target was removed.
//   - Holders that know nothing of each other find each other: each asks, one after the other,
//     all members. So a copy too many is found, even if each holder sees as many as it wants.
//   - The same events at the same times give the same actions.
//
// An [Object] keeps what is known between two events: what nodes ask for, and what other members hold.
// [Object.At] is it at one time, with a [View] of the members: the [Moment] decides and reports.
//
// One object: a node pins it with a target of 3 copies. [Moment.Plan] returns two Send actions
// to the members that [View.Place] chose; the node sends the object and calls [Object.Sent].
// The next Plan challenges both, [Object.Answered] notes their proofs, and the target is met.
// Each holder does the same from now on: it challenges the others once in Params.AuditPeriod.
// When a member is gone, or no longer proves, the first proved holder in the object's order
// sends a copy to another member; after a grace the next holder does. When a lost member comes
// back there is one copy too many. The holder that Place would choose last asks the first for a
// [Lease], proves the others, waits, proves them again, and drops its copy.
//
// With an erasure coding the object that is planned is the coding manifest, and a copy of it is one
// [Piece]: a shard, or the whole object that was coded. Different shards are counted; a whole copy stands for one
// that is missing. A Send names the shard, and the node that sends may have to make it from others.
package plan
