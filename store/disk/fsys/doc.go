// Package fsys provides the file system that a store uses: the names in its directory,
// atomic and durable replacement of files, and layers above the machine's file system.
//
// Each layer wraps another file system:
//   - [Ballasted] deletes a file of the ballast when the log or the index finds no space.
//   - [Sparing] closes cached files when the process has no file descriptor left.
//   - [Overlay] keeps changes in RAM when the disk takes no writes.
//
// [ReplaceFile] shows how a file is replaced: [Replace] writes and syncs a new file in tmp/
// and renames it, and [SyncDir] makes the new name durable.
package fsys
