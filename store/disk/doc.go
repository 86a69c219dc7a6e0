// Package disk is the embedded backend of a store: files in one directory, as
// FORMAT.md has it, or, with a bucket, the large ones there. It owns layout, lock,
// opening, recovery and rebuild, composes the index, the log and the files of
// large objects, and notes downloads and uploads beside their files.
package disk
