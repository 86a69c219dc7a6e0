// Package namestore holds the records of names that this node knows (SPEC §6, OAP1 §11): a [Store] those that it keeps
// for others in the DHT, a [Seen] those that it has looked up, published or followed itself.
//
// Invariants of a [Store]:
//
//   - It holds verified records alone, and for each name the one with the highest sequence
//     number; two where that number was signed twice with different values.
//   - At most [MaxRecords] records and [MaxBytes] bytes in all, and [MaxPerZone] records of
//     one zone. Records compete for space by the IP group of the connection that they came
//     over, because zones cost nothing: in a full store the group with most bytes loses its
//     newest record, to a group that has less. This node's own records are never displaced.
//   - A record leaves the store when it has expired.
//
// Invariants of a [Seen]:
//
//   - No record is taken up that is older than one that it was shown, also before a restart and by another way: by a
//     lookup, a publication or gossip. So a record that another node replays is never accepted.
//   - Found records are at most [MaxFound] bytes, and are forgotten before the sequence number of their name is.
//
// A holder answers lookups of the DHT from its Store alone, and passes on the records of its Store alone. So it tells
// nobody there what it has looked up itself.
//
// Holders pass a record on until it expires, so that a name stays while its publisher is
// away. Each holder waits for a random time of one to two Config.PassOn after a record last
// arrived. The first holder whose time has come sends the record to the peers that are
// closest then, and its puts restart the waits of the others. So there is about one put per
// holder and interval, whatever the number of holders.
//
// One record: the provider exchange verifies a put and calls [Store.Put], which compares it
// with the record held. A request calls [Store.Get]. Once a second the service calls
// [Store.Due] and publishes what it returns. [Store] is also the table that package persist
// copies to disk.
package namestore
