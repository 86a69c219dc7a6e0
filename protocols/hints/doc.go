// Package hints tells the network at once who has something new, and
// remembers what others told: hints for the resolver (SPEC §4, §6).
//
// An announcement is a list of objects that its provider signed, once for up to
// 512 of them (protocols/oap/SPEC.md §12). It spreads by gossip; what gossip
// drops, anti-entropy brings: now and then a node compares what it holds with a
// connected peer, over a stream of its own, and both get what they lack.
//
// Invariants:
//
//   - nothing is held or passed on that its provider did not sign. By gossip a
//     provider announces itself alone; by anti-entropy anyone brings anything,
//     and the signature counts;
//   - an announcement ends with its not_after, at most 24 h away. Until then a
//     newer one of the same batch replaces it: with fewer objects, or none, it
//     is withdrawn, and the older one is refused;
//   - memory is bounded in announcements and bytes; a provider has at most an
//     eighth, and who has most gives way first (memory.go);
//   - a hint is no more than that: who is named is asked, and the bytes prove
//     themselves. Nothing is on disk.
//
// One announcement, walked through: a node pins an object and calls
// [Service.Announce]. For 250 ms more objects are gathered; then one
// announcement of all of them is signed, remembered and published. A peer's
// gossip calls [Service.Validate], which checks form, age and signature in well
// under 1 ms, and passes it on; [Service.Handle] remembers it. A lookup there
// asks [Service.Hints] and has the provider, with addresses, without asking the
// DHT. A third node missed the message: a second later it picks a peer at
// random, offers a fingerprint for each 256th of what it holds, gets the ids in
// those that differ, asks for what it lacks and sends what the peer does.
package hints
