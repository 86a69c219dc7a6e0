// Package namestore holds the name records that this node keeps for the DHT (SPEC §6, OAP1 §11).
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
// [Floors] remembers the highest sequence number of each name that this node itself has looked up or published. So the
// node never accepts an older record again, even if another node replays it.
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
