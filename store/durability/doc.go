// Package durability knows the members of a cluster and chooses which of them hold the copies of an
// object. It starts nothing, sends nothing and has no clock: offers and the time go in, views come out.
//
// Invariants, whatever members do or say:
//
//   - A member that is silent for less than Params.Grace changes nothing.
//   - Nodes with the same members choose the same ones for an object.
//   - A member that joins or leaves moves about its share of the capacity.
//
// A node gives each verified offer to [Cluster.Offer] and asks [Cluster.View] for what it knows now.
// [View.Place] orders the members for an object.
package durability
