// Package audit keeps the node's audit log (SPEC §9): one JSON line for every
// mutation asked of it over HTTP, before it is carried out and after, and for
// every request that was refused.
//
// Invariants:
//
//   - Each record holds the BLAKE3 hash of the line before it, over all files of
//     a log, so a record that was changed, removed, put in or moved shows. A head
//     file beside them names the last record, so a cut end shows too. Who can
//     write the files can write all of them anew: that shows only against a head
//     hash kept elsewhere (`allium audit verify --head`).
//
//   - A mutation's record is on disk before the mutation begins, or the mutation
//     is refused.
//
//   - Refusals are recorded as far as a rate allows; how many were not is
//     recorded. They never wait and nothing waits for them.
//
//   - One goroutine writes. Records that wait are written together and made
//     durable by one sync.
//
//   - Nothing that was written is ever changed but for a last line that a crash
//     cut short; where the files are not as the head file says, a new file is
//     begun and says so, and the old ones stay as they are.
//
//   - A node that forgets keeps no file: each record is a line of the node's own
//     log, told when it happens, with no chain and nothing refused for it.
//
// One mutation, walked through: PUT /o/b3:… has a capability that allows it.
// [Log.Mutation] queues its record; the writer takes what else is there, gives
// numbers and hashes, writes, syncs, answers all that wait, and writes the head
// file. The object is stored. [Log.Outcome] queues a second record with how it
// ended and the first one's number; the writer syncs it within a quarter of a
// second.
package audit
