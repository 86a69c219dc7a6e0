// Package limits provides every bound of the program: gates, queues, rates and byte
// budgets. Each is made with a [Registry], which a package gets in its Deps, so
// `/limits`, the metrics and docs/reference/queues.md all list every bound.
//
// There is one type for each way to bound work:
//
//   - [Gate] lets N requests run and M wait in order; further ones get busy.
//   - [KeyedGate] lets each key, such as a client, have N requests running.
//   - [FairGate] shares N places between keys, so that no key takes them all.
//   - [Queue] is a bounded channel; the caller chooses what happens when it is full.
//   - [FairQueue] is a bounded queue that is fair between keys.
//   - [Events] gives each subscriber a queue of events, which drops the oldest when full.
//   - [Rate] is a token bucket.
//   - [FairRate] is a token bucket that is fair between keys.
//   - [Budget] bounds bytes in use.
//   - [FairBudget] bounds bytes in use, and is fair between keys.
//   - [Usage] lists a bound that its owner enforces.
//
// A Gate, Queue, Rate or Budget whose [Spec] says of what there is one each, such as
// "peer", is a family: Member returns one more, under the same name in the list. The
// caller owns the members and bounds their number. Refusals are those of all members
// together; current and peak are those of the fullest.
//
// Invariants: no more than the capacity is ever in use, except of a Usage. Every
// refusal is counted, and is a typed error (status.Busy, status.Quota or
// status.RateLimit) with the name of the limit, its numbers and an estimated wait.
// No method holds a lock while it waits.
//
// One request, walked through: a handler calls Gate.Acquire(ctx). If a place is free,
// Acquire returns at once. If M requests already wait, it returns busy. It also
// returns busy if the estimated wait (requests waiting ÷ drain rate) would last beyond
// ctx's deadline. Otherwise the request waits its turn; if ctx ends first, Acquire
// returns ctx's error and the request leaves the line. The handler calls release when
// it has finished.
package limits
