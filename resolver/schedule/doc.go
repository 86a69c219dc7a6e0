// Package schedule decides which provider of an object is asked for which of its
// groups, as a pure state machine. Events and the time go in; requests, cancels
// and deadlines come out. It has no goroutine, network, clock or log. A driver over
// the network, a simulation in virtual time and a golden trace therefore run the
// same code.
//
// Invariants of any transfer, whatever the providers do:
//
//   - A provider has at most 4 requests in flight, and more than 2 only while a
//     reader waits.
//   - Once the size is known, a group in flight is requested a second time only to
//     hedge a late request, and only once. All hedges of a transfer are bounded by
//     4 MiB plus a sixteenth of the bytes that arrived.
//   - No group is requested further ahead of a reader than its window.
//   - Requests go out only while the permit is held.
//   - A provider that lied, or failed too often, is not asked again.
//   - The machine ends when each waiter has its groups or cannot get them.
//   - The same events at the same times give the same actions.
//
// One transfer: [Machine.Join] takes a [Demand]. [Machine.Advance] returns Find
// and Acquire. The driver answers with [Machine.Found] and [Machine.Granted], and
// the next Advance returns an Ask for the proof of the size and the first groups.
// Until a provider answers, another one is asked every Config.HedgeAfter. When the size is
// proved the driver calls [Machine.Sized]. From then on each Advance gives the
// providers, fastest first, the groups that are demanded, missing and not
// requested. Before an Advance the driver reports each request's
// [Machine.Progress]; when a request has ended it calls [Machine.Ended]. Advance
// is due after every event and at [Machine.Wake]. The transfer ends with [Done]
// when the object is whole, or with [GiveUp] when no waiter can be served.
package schedule
