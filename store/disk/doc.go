// Package disk provides the backend of a store whose files are in one directory,
// and, for the s3 backend, whose large objects are in a bucket. FORMAT.md in package
// store describes the files.
//
// # Invariants
//
//   - One process has the directory open: it holds LOCK.
//   - The log and the files of large objects are the truth. The index is built from
//     them, so a damaged index is replaced, never fatal.
//   - Writes leave store.reserve_bytes of the disk free. The ballast, files that the
//     store fills in advance, leaves space for removals on a full disk.
//
// # Life of a request
//
// [Backend.Open] locks the directory, reads FORMAT and the list of damage, and opens
// the index, or makes an empty one if it is damaged. recover replays the log from its
// last checkpoint, and package blob recovers the files. If the disk takes no writes,
// Open opens the store for reading only.
//
// A small object goes through the embedded [segment.Log]: Put appends it and commits it
// to the index (package tables). A large object goes through the embedded
// [blob.Files]: Stage, then Publish. [Backend.Get] reads the index; Read and OpenPair
// read the bytes. [Backend.RemoveAll] removes entries and then unlinks files.
//
// [Rebuild] builds a new index for a store that no process has open.
package disk
