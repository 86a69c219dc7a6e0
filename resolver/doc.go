// Package resolver is the node's fetcher: it turns an address into verified
// bytes, from the local store or from whoever on the network has them (SPEC
// §6).
//
// Three verbs cover what the node needs. [Resolver.Open] gives a range of an
// object to read, starting before the last byte has arrived.
// [Resolver.Fetch] brings one whole object into the store.
// [Resolver.FetchTree] brings a directory and everything below it.
//
// Invariants:
//
//   - Nothing unverified is stored or handed out. The object client gives the
//     resolver b3.Proved values only, and what readers get is verified again on
//     its way out of the store.
//   - A size is a fact, never a claim: it has been proved by the last group
//     (OAP1.md §9) before [Content.Size] or the store hears of it.
//   - One root is fetched once at a time, however many callers wait for it, and
//     whatever each wants of it. A caller that leaves does not disturb the others;
//     what nobody wants any more is not asked for.
//   - What was verified is kept: when a provider fails another is asked for the
//     rest, and when the last caller leaves, or the node stops, the store keeps
//     the part and the next fetch goes on from there.
//   - Every goroutine belongs to Run, which waits for it. What is in flight is
//     bounded by admission gates and by the readers' windows, and so is the
//     memory of a tree of any size.
//
// A transfer is the one fetching of an object. Its users are wants: all of it, or
// a range and the place where a reader is. One goroutine runs its schedule; it
// gives runs of groups that are wanted, missing and not asked for to providers,
// each a span: one request, in a goroutine of its own. A span is as long as its
// provider, by its measured pace, takes 250 ms for; the next one goes out when
// the first is about to end, so that the pipe never drains. A span that is late
// is doubled by another provider, once, and what came twice is bounded; when
// nothing is left to give, an idle provider takes over the end of the longest
// span. A reader pulls at most 64 MiB ahead of itself.
//
// One request, walked through: the gateway calls Open for an object the store
// does not have. A transfer for that root starts under Run's context (or the one
// that runs is joined). It asks its sources for a provider: the peers the
// caller names, the peer that served the parent directory, two that
// announced the object by gossip, then the DHT's answers as they arrive. The
// first provider whose breaker is closed gets one request: the size proof and the first MiB wanted. With the proof the size is
// known and Open returns; each verified group goes to the store's ingest and from
// there to the reader. 2 MiB or more are left, so a second and a third provider
// are drawn and given spans. One stalls; 30 ms after its next group was due the
// others are given its span. The last group arrives, the ingest commits, and the
// object is local.
package resolver
