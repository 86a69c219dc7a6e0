// Package model checks the rules by which holders of an object send, drop and forget copies. spin explores every
// state of models of them. The package has only tests.
//
// A model names the Go methods that its processes stand for. Each guard names the property that fails without it:
// TestModels removes the guards one by one.
//
//   - trim.pml: holders ask each other for leases, prove that enough others hold the object, wait, prove it again and
//     drop their copy.
//   - shards.pml: the same with shards, some held by several members. Two planners send the missing shards at the same
//     time, and as many are lost as the coding allows.
//   - removal.pml: a target is removed, and perhaps set again, while a holder is away that still has the old one.
//
// # Properties
//
//   - Holders never leave fewer copies than are wanted by what they do themselves, even if each has its
//     lease from another planner. The only copy of a shard is never dropped.
//   - A copy that was lost before the second round of proofs is not counted on, and neither is one of a holder that
//     knows no target but removed ones.
//   - A planner that holds the object, and does not leave itself, grants one lease at a time, and not to the same
//     holder again while another one asks.
//   - A node drops no copy of an object for which it has a target itself, and no copy that a target asks for.
//   - A planner sends a shard to one member at a time. After the last plans no shard is missing, and the object can be
//     read all the time.
//   - Only the origin changes or removes its target, and nothing older replaces what is known of it. What another
//     member says in its name ends when the origin hears of it.
//   - The copies of a removed target go. A holder that comes back brings the target back only until it can ask the
//     origin.
//   - All of them come to an end.
//
// # Invariants
//
// The models allow everything that the code can do to the copies of one object. They omit whom a planner chooses, and
// whose turn it is. Package durability tests that over the Go code in virtual time, with hundreds of nodes and random
// orders of events (TestClusterConverges).
//
// # One check
//
// See package allium/internal/testkit/promela. To see the path to a failure:
//
//	spin -DHOLDERS=3 -a trim.pml && gcc -o pan pan.c && ./pan -a -N enough_left
//	spin -DHOLDERS=3 -t -p -g trim.pml
package model
