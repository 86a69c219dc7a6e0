// Package resolver turns an address into verified bytes, from the local store or
// from peers that have them (SPEC §6).
//
// It has three verbs. [Resolver.Open] gives a range of an object to read,
// starting before the last byte has arrived. [Resolver.Fetch] brings one whole
// object into the store. [Resolver.FetchTree] brings a directory and everything
// below it.
//
// Invariants:
//
//   - Nothing unverified is stored or handed out. The object client gives the
//     resolver b3.Proved values only, and a reader's bytes are verified again on
//     their way out of the store.
//   - A size is a fact, never a claim: the last group has proved it (OAP1.md §9)
//     before [Content.Size] or the store hears of it.
//   - One transfer of a root runs at a time, shared by all callers, whatever each
//     wants of it. A caller that leaves does not disturb the others, and groups
//     that no caller wants any more are not asked for.
//   - Verified bytes are kept: when a provider fails another is asked for the
//     rest, and when the last caller leaves, or the node stops, the store keeps
//     the part and the next fetch continues from there.
//   - Every goroutine belongs to Run, which waits for it. Admission gates and the
//     readers' windows bound the work in flight, and so the memory of a tree of
//     any size.
//
// The parts: providers finds and asks peers, schedule decides which provider is
// asked for which groups, transfer fetches one object that way, tree fetches
// directories. The resolver itself joins them with the store, and reads.
//
// One request, walked through: the gateway calls Open for an object the store
// does not have. A transfer for that root starts under Run's context (or the one
// that runs is joined). It asks its sources for a provider: the peers the
// caller names, the peer that served the parent directory, two that
// announced the object by gossip, then the DHT's answers as they arrive. The
// first provider whose breaker is closed gets one request: the size proof and the
// first MiB wanted. With the proof the size is known and Open returns; each
// verified group goes to the store's ingest and from there to the reader. 2 MiB or
// more are left, so a second and a third provider are drawn and given spans. One stalls; 30 ms after its next group was due the
// others are given its span. The last group arrives, the ingest commits, and the
// object is local.
package resolver
