// Package durability decides what one node of a cluster does so that objects have the copies
// that their pins ask for. It starts nothing, sends nothing and has no clock: members, proofs
// and the time go in, actions come out. A node over the network and a simulation in virtual
// time run the same code.
//
// Invariants, whatever other members do or say:
//
//   - A copy counts while its holder proves it. A holder that says it has a copy, and does not
//     prove it, does not count.
//   - A member that is silent for less than Params.Grace changes nothing.
//   - A node drops a copy only after it proved twice, Params.TrimWait apart, that enough others
//     hold the object. From before the first proof on it claims to hold none itself, so two
//     holders that leave at once never count each other.
//   - No event makes a node drop a copy that one of its targets asks for.
//   - The same events at the same times give the same actions.
//
// One object: a node pins it with a target of 3 copies. [Object.Plan] returns two Send actions
// to the members that [View.Place] chose; the node sends the object and calls [Object.Sent].
// The next Plan challenges both, [Object.Answered] notes their proofs, and the target is met.
// Each holder does the same from now on: it challenges the others once in Params.AuditPeriod.
// When a member is gone, or no longer proves, the first proved holder in the object's order
// sends a copy to another member; after a grace the next holder does. When a lost member comes back there
// is one copy too many. The last holder in the order asks the first for a [Lease], proves the
// others, waits, proves them again, and drops its copy.
package durability
