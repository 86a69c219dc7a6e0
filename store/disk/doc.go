// Package disk is the embedded backend of a store: files in one directory, as
// store/FORMAT.md has it, or, with a bucket, the large ones there. It owns layout,
// lock, opening, recovery and rebuild, and composes the index, the log, the files
// of large objects and the bucket.
package disk
