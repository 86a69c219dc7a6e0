// Package transfer fetches one object from many providers.
//
// At most one transfer of an object runs. All callers that want a part of the
// object share it: each is a [Waiter], for the whole object or for a range that it
// reads. One goroutine drives its schedule (package schedule), which gives runs of groups
// that are wanted, missing and not asked for to providers. Each is a span: one
// request, which runs in its own goroutine. Groups that arrive are verified, and
// kept in the store's ingest.
//
// A span is as long as its provider, by its measured pace, takes 250 ms for; the
// next one goes out when the first is about to end, so that the pipe never
// drains. A span that is late is doubled by another provider, once, and what
// came twice is bounded; when nothing is left to give, an idle provider takes
// over the end of the longest span. A reader pulls at most 64 MiB ahead of
// itself.
package transfer
