// Package partial stores objects of which only some groups have arrived: downloads in
// progress, and what is left of interrupted ones. Readers can read the groups that are
// there.
//
// Invariants:
//
//   - A group counts as stored only after its bytes and all parents above it were written.
//     Every read proves what it returns.
//   - What a checkpoint saved survives the process. A crash costs at most maxUnsaved bytes
//     of a download; further writes wait for a checkpoint.
//   - Memory grows with what arrived, not with a claimed size.
//   - One ingest of an object runs at a time, and what arrived of it is saved. Any number of
//     readers share its files, and the last user closes them. An ingest that was begun apart
//     has files of its own, which are never saved.
//
// One download: Table.Ingest waits at Deps.Gate and opens the object, with the groups that
// the last download saved. Ingest.Write stores one proved item; it reserves space, writes
// the bytes, and marks the group (object.endWrite). Table.Serve calls object.checkpoint
// every 32 MiB or 5 s: save syncs the files, and the backend's Save records the size and the
// changed pages of the bitmap. Readers use Ingest.Wait and View. Ingest.Commit makes the
// complete object visible, Suspend keeps what arrived, Abort discards it.
package partial
