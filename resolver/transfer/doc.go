// Package transfer fetches one object from many providers.
//
// Invariants:
//
//   - At most one transfer stores an object. All callers share it; each is a
//     [Waiter], for the whole object or for a range that it reads.
//   - A reader of an object for which the store has no space has a transfer of its
//     own, [Set.Stream], that keeps a window of 1 MiB in RAM.
//   - One goroutine runs the driver of a transfer and alone touches its state. Each
//     request, called a span, runs in its own goroutine, which the driver waits for.
//   - Groups are verified before they are written to the store's ingest.
//   - A reader makes a transfer fetch at most 64 MiB ahead of itself.
//   - Groups that have arrived stay in the store when the transfer ends early.
//
// One transfer: [Set.Join] returns a Waiter of the running transfer or starts one.
// The driver asks package schedule what to do, and carries it out: it starts spans,
// cancels them and looks for providers. A span asks for as many groups as its
// provider delivers in 250 ms. The next span goes out when the first is about to
// end, so that the connection is never idle. Another provider hedges a late span,
// once and within a bound. When no groups are left to assign, an idle provider takes
// over the end of the longest span. [Waiter.Open] returns when the first group can
// be read. When the object is whole the transfer commits it. When its last waiter
// leaves first, the transfer stays open for 2 s and then suspends the ingest.
package transfer
