// Package model checks how holders of an object drop copies that are too many. spin explores every state of
// a model of it. The package has only tests.
//
// trim.pml models holders that ask each other for leases, prove that enough others hold the object, wait,
// prove it again and drop their copy: package durability. It names the Go methods that its processes stand for. Each
// guard names the property that fails without it: TestModels removes the guards one by one.
//
// # Properties
//
//   - Holders never leave fewer copies than are wanted by what they do themselves, even if each has its
//     lease from another planner.
//   - A copy that was lost before the second round of proofs is not counted on.
//   - A planner that holds the object, and does not leave itself, grants one lease at a time.
//   - A node with a target of its own drops nothing.
//   - All of them come to an end.
//
// # Invariants
//
// The model allows everything that the code can do to the copies of one object. It omits what makes copies:
// whom a planner chooses and when it sends. Package durability tests that over the Go code in virtual time,
// with hundreds of nodes and random orders of events (TestClusterConverges).
//
// # One check
//
// See package allium/internal/testkit/promela. To see the path to a failure:
//
//	spin -DHOLDERS=3 -a trim.pml && gcc -o pan pan.c && ./pan -a -N enough_left
//	spin -DHOLDERS=3 -t -p -g trim.pml
package model
