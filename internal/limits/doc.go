// Package limits holds the program's bounds: every queue, pool of permits,
// rate and byte budget is one of its types, made in a [Registry] that Deps
// carries, so that `/limits`, the metrics and docs/reference/queues.md
// show the same list.
//
// Seven types cover what the node needs:
//
//   - [Gate]: N run, M wait in order, the rest get busy;
//   - [Queue]: a bounded channel with a stated policy for when it is full;
//   - [Lanes]: a bounded queue that is fair between keys, such as peers;
//   - [Rate]: a token bucket;
//   - [Shares]: a token bucket, and places in flight, that are fair between keys;
//   - [Budget]: permits for bytes;
//   - [Memory]: bytes that holders take piece by piece, fair between keys.
//
// A [Family] is many rates under one limit, a [QueueFamily] many queues: one
// line in every list, a limit for each member.
//
// Invariants: current ≤ capacity at all times; a refusal is typed
// (status.Busy or status.RateLimit, with the limit's name, its numbers and an
// estimated wait) and counted; no method holds a lock while it waits.
//
// One request, walked through: a handler calls Gate.Acquire(ctx). If a place is
// free it runs. If M others already wait, or the estimated wait (waiting ÷
// drain rate) exceeds what is left of ctx's deadline, it gets busy at once.
// Otherwise it waits its turn; when ctx ends first the wait ends with ctx's
// error and the place in the line is given up.
package limits
