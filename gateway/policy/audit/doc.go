// Package audit keeps the node's audit log (SPEC §9): a JSON line before each mutation that a
// client requests over HTTP, a line after it, and a line for each refused request.
//
// Invariants:
//
//   - Each record contains the BLAKE3 hash of the line before it, over all files of a log. So a
//     record that was changed, removed, inserted or moved is found. A head file names the last
//     record, so a cut end is found too. A user who can write the files can rewrite all of them.
//     Only a head hash stored elsewhere reveals that (`allium audit verify --head`).
//
//   - The record of a mutation is on disk before the mutation begins. Otherwise the mutation is
//     refused.
//
//   - Refusals are recorded up to a rate, and the number of the others is recorded. Recording a
//     refusal never waits.
//
//   - One goroutine writes. It writes waiting records as a batch with one sync (group commit).
//
//   - Written records never change, except that an unfinished last line is cut off after a crash.
//     If the files do not match the head file, the log begins a new file with a record that says
//     so, and leaves the old files as they are.
//
//   - A node that stores nothing (amnesia) writes each record as a line of the node's log instead, without hashes. That
//     never refuses a mutation.
//
// One mutation, walked through: PUT /o/b3:… has a capability that allows it. [Log.Mutation] queues
// its record. The writer takes the batch, assigns numbers and hashes, writes, syncs, answers the
// waiting requests and writes the head file. The object is stored. [Log.Outcome] queues a second
// record with the outcome and the first record's number. The writer syncs it within 250 ms.
package audit
