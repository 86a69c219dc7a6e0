// Package gc frees space in a store: it finds the objects that no pin reaches, evicts those
// used least recently, and decides whether a write still has space. It also answers why an
// object is kept, and which pinned objects are lost.
//
// Invariants:
//
//   - A collection removes an object only if no pin reaches it, no lease or hold protects
//     it, and it was not used since the collection began. While the removal of a batch is
//     registered, this cannot change.
//   - While a directory below a pin or the log is damaged, nothing is removed: what it
//     protects is unknown.
//   - No write passes a bound of Limits, except those that Account.Take and TakeUnwritten count
//     without a check. Reservations count as used until Release.
//   - RAM is bounded: two Bloom filters for the objects, and walks that
//     remember directories in a manifest.Seen, and at most maxPending that wait to be read.
//
// One write: the store calls Account.Reserve. If the bytes fit, they count as reserved at
// once. Otherwise Reserve wakes Collector.Serve and waits, 5 s at most, for an eviction.
// Serve runs Collector.Run, whose cycle marks what pins reach (markPins), counts the rest
// by the age of its last use (scan, histogram) and removes the oldest in batches of
// maxBatch (remove). After each batch Reserve tries again; if nothing more can be removed,
// it returns no_space.
package gc
