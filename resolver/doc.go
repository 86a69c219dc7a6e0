// Package resolver turns an address into verified bytes, from the local store or
// from peers that have them (SPEC §6).
//
// It has four verbs. [Resolver.Resolve] names the providers of an object.
// [Resolver.Open] gives a range of an object to read, starting before the last byte has
// arrived. [Resolver.Fetch] brings one whole object into the store. [Resolver.FetchTree]
// brings a directory and everything below it.
//
// Invariants:
//
//   - Nothing unverified is stored or handed out. The object client returns only
//     b3.Proved values, and a reader's bytes are verified again when they leave
//     the store.
//   - The last group proves the size (OAP1.md §9) before [Content.Size] returns it
//     or the store learns it.
//   - One transfer of a root runs at a time, and all callers share it, whichever
//     ranges they read. A caller that leaves does not disturb the others. Groups
//     that no caller needs any more are not requested.
//   - Verified bytes are kept. When a provider fails, another one is asked for the
//     rest. When the last caller leaves, or the node stops, the store keeps the
//     part and the next fetch continues from there.
//   - Every goroutine belongs to Run, which waits for it. Admission gates and the
//     readers' windows bound the work in flight. They also bound the memory of a
//     directory tree of any size.
//
// Package providers finds and asks peers, schedule decides which provider is
// asked for which groups, transfer fetches one object that way, and tree fetches
// directories. This package joins them with the store and reads.
//
// One request: the gateway calls [Resolver.Open] for an object that the store
// does not have. Open joins the running transfer of that root or starts one under
// Run's context. The transfer takes providers from its sources in this order: the
// peers that the caller names, the peer that served the parent directory, two
// peers that announced the object by gossip, then the DHT's answers as they
// arrive. The first provider whose circuit breaker is closed gets one request, for
// the size proof and the first MiB. With the proof the size is known and Open
// returns. Each verified group goes to the store's ingest and from there to the
// reader. If 2 MiB or more are left, a second and a third provider are given
// spans. When one of them stalls, the others are given its span 30 ms after its
// next group was due. After the last group the ingest commits, and the object is
// local.
package resolver
