// Package own publishes the names of own zones, and keeps them published (SPEC §6).
//
// The records are in the files zones/<zone key>.records below the home directory, beside the keys.
//
// Invariants:
//
//   - A record is durable in its file before anybody else gets it. A write that fails leaves the
//     old file and the old record in force.
//   - The sequence number of a new record is above that of the own record, and above the highest
//     that the peers have, if they can be asked.
//   - A record that another holder of the key has replaced, or contradicted with the same sequence
//     number, is not sent and not signed again. The owner decides by publishing once more.
//   - No two labels of a zone that are in use look alike.
//   - A damaged file is set aside as <zone key>.records.damaged-N. The records in it that can still be verified, and
//     those that this node holds for others, take its place. Before one of them is sent, the peers are asked for a
//     newer one. Nothing is signed below the highest number that this node has verified.
//   - With amnesia nothing is read or written, and publishing is refused.
//
// # One name
//
// [Service.Publish] looks the name up, unless it was published here before. It signs a record with
// the key of the zone, replaces the file of the zone, tells Deps.Published, and sends the record.
// If no peer takes it, the caller is told so, and Run sends it again: after 10 s, then after twice
// as long each time, up to an hour, and also after a restart. When half of its life has passed, Run
// asks the peers whether the record is still in force, signs it again and sends it. In between the
// peers that hold it pass it on.
package own
