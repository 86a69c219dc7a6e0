// Package schedule decides which provider of an object is asked for which of its
// groups, as a pure state machine. Events and the time go in, requests, cancels
// and deadlines come out. It starts nothing, sends nothing, reads no clock and
// logs nothing, so that a driver over the network, a simulation in virtual time
// and a golden trace run the same code.
//
// Invariants, of any transfer, whatever the providers do:
//
//   - a provider has at most 4 requests in flight, more than 2 only for a reader
//     that waits;
//   - once the size is known, a group in flight is asked for again only to double
//     a late request, once; all doubles together are bounded by 4 MiB and a
//     sixteenth of the bytes that arrived;
//   - nothing is asked for further ahead of a reader than its window;
//   - requests go out only while the permit is held;
//   - a provider that lied, or failed too often, is not asked again;
//   - when every waiter has what it wants or cannot have it, the machine says so;
//   - the same events at the same times give the same actions.
//
// One transfer, walked through. [Machine.Join] takes a [Want]. [Machine.Advance]
// returns Find and Acquire; the driver answers with Found and Granted, and the
// next Advance returns an Ask for the proof of the size and the first groups.
// While nobody answers, another provider is asked every 250 ms. When the size is
// proved the driver calls [Machine.Sized]; from then on each Advance gives runs of
// groups that are wanted, missing and not asked for to the providers, the fastest
// first. Before an Advance the driver tells what came of each request
// ([Machine.Progress]); when one has ended it calls [Machine.Ended]. Advance is
// due after every event, and at [Machine.Wake]. The transfer ends with [Done]
// when everything is here, or with [GiveUp] when nobody can be helped.
package schedule
