// Package segment is the log of everything that happened to a store, which holds
// the bytes of small objects: the format of records, group commit planned against
// the index, replay, and compaction. FORMAT.md says a segment byte by byte.
//
// The log and the files of large objects are the truth; the index is made from
// them. A log knows nothing of the files of large objects but their names; a
// bucket that has their bytes it tells of removals (Bucket).
package segment
