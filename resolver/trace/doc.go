// Package trace keeps what lookups did, for the question why one failed or was slow
// (SPEC §6, Why).
//
// Invariants:
//
//   - A [Ring] holds at most 4,096 lookups and 16 MiB. It has four parts with bounds
//     of their own: failed and slow lookups, ordinary ones, hits, and those that run.
//     So many hits never push out a failure.
//   - One lookup takes at most 64 KiB. The events that it leaves out are counted.
//   - A hit costs no allocation and one short lock that few others use.
//   - A [Record] of a lookup that has ended never changes, but for a search that the
//     lookup did not wait for.
//   - A lookup that takes more than 4 times the p99 of its class, and 10 ms, has its film
//     frozen. The class is its kind and how much came from peers.
//   - The package starts no goroutine, does no I/O, and calls nothing while it holds a
//     lock.
//
// One lookup: [Ring.Begin] returns a [Lookup] with a new ID. The parts of the resolver
// tell it the steps, the search for providers, each provider that is asked, and each
// request that ended. [Lookup.End] closes it and puts its record into the part that its
// outcome and duration choose. [Ring.Get] finds it by its ID, and [Ring.Latest] by its
// key. The oldest record leaves a full part. All are forgotten when the process ends.
package trace
