// Package hints announces new objects of this node to the network by gossip, and remembers
// what other nodes announced, as hints for the resolver (SPEC §4, §6).
//
// An announcement is a list of up to 512 objects that their provider signed
// (protocols/oap/SPEC.md §12). It spreads by gossip. Anti-entropy delivers what gossip drops:
// from time to time a node compares its announcements with those of a connected peer, over
// a stream, and both receive what they lack.
//
// Invariants:
//
//   - Nothing is stored or forwarded that its provider did not sign. By gossip a provider may
//     announce only itself. In a comparison a peer may bring any announcement, because the
//     provider's signature covers it.
//   - An announcement ends at its not_after, at most 24 h away. A newer one of the same batch
//     replaces it earlier. If the newer one names fewer objects or none, the others are
//     withdrawn. The older one is then refused. A batch without objects is used again for
//     the next ones, so that what was withdrawn takes no memory for long.
//   - Memory is bounded in announcements and bytes. One provider has at most an eighth, and
//     the provider with most loses its announcements first (memory.go).
//   - A hint is a claim. The resolver asks the provider and verifies the bytes. Nothing is
//     stored on disk.
//
// One announcement: a node pins an object and calls [Service.Announce]. The publisher
// collects objects for 250 ms, then signs, remembers and publishes one announcement of all of
// them. A peer's gossip calls [Service.Validate], which checks form, age and signature in well
// under 1 ms, and forwards the message. [Service.Handle] remembers it. A lookup on that peer
// calls [Service.Hints] and has the provider with its addresses, without the DHT. A third
// node missed the message. About a second later it picks a peer and offers one fingerprint for
// each of 256 buckets of its announcements. The peer answers with the IDs in the buckets that
// differ. The node asks for those that it lacks and sends those that the peer lacks.
package hints
