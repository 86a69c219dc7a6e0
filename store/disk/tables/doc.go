// Package tables provides the database of a store: a typed table for each kind of key, and
// batches that change several tables atomically. It hides Pebble: no other package sees its
// keys, values or batches. FORMAT.md lists the keys.
//
// For objects and pins the index is a cache of the log, never the truth. It may lag behind
// the log, and is rebuilt from it when it is damaged (Damaged). The notes about the bucket,
// the scrub and last uses are only here.
//
// After a write fails, the index still reads but refuses every further write (Failure).
// When the disk has no space, it refuses a write before it fails (Writable).
//
// One change: the writer of the log takes a batch with NewReadingBatch, looks up an entry
// with Get, changes it with SetEntry or DropEntry, moves the watermark with SetWatermark,
// and calls Apply. Requests read with Index.Get; scans read pages with Entries and Pins. A
// value that changes alone, such as Clean, is a Cell.
package tables
