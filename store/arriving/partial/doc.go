// Package partial stores partial objects, of downloads in progress and of interrupted ones. Readers can read the groups
// that have arrived.
//
// Invariants:
//
//   - A group counts as stored only after its bytes and all parents above it were written.
//     Every read proves what it returns.
//   - Saved groups survive the process. A crash costs at most maxUnsaved bytes of a download; further writes wait for a
//     checkpoint.
//   - Memory grows with what arrived, not with a claimed size.
//   - One ingest of an object runs at a time, and the groups that arrived are saved. Any number of readers share its
//     files, and the last user closes them. An ingest that was begun apart has separate files, which are never saved.
//
// One download: Table.Ingest waits at Deps.Gate and opens the object, with the groups that
// the last download saved. Ingest.Write stores one proved item; it reserves space, writes
// the bytes, and marks the group (object.endWrite). Table.Serve calls object.checkpoint
// every 32 MiB or 5 s: save syncs the files, and the backend's Save records the size and the
// changed pages of the bitmap. Readers use Ingest.Wait and View. Ingest.Commit makes the
// complete object visible, Suspend keeps what arrived, Abort discards it.
package partial
