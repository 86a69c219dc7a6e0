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
//   - One root is fetched once at a time, however many callers wait for it. A
//     caller that leaves does not disturb the others; when the last one leaves
//     the fetch is cancelled, unless all bytes have arrived already.
//   - What was verified is kept when a provider fails: the next one is asked
//     for the rest.
//   - Every goroutine belongs to Run, which waits for it. What is in flight is
//     bounded by admission gates and a byte budget, and so is the memory of a
//     tree of any size.
//
// One request, walked through: the gateway calls Open for an object the store
// does not have. A flight for that root starts under Run's context (or the one
// in the air is joined). It asks its sources for a provider: the peers the
// caller names, the peer that served the parent directory, then the DHT's
// answers as they arrive. The first provider whose breaker is closed gets one
// request: size proof, then the whole object. With the proof the size is known
// and Open returns; each verified group goes to the store's ingest and from
// there to the reader. The provider stalls; after the watchdog's patience the
// next provider is asked for the remaining range. The last group arrives, the
// ingest commits, and the object is local.
package resolver
