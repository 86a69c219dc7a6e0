// Package segment is the log of everything that happened to a store, which holds
// the bytes of small objects: group commit planned against
// the index, replay, and compaction. Package record is the format of a segment.
//
// The log and the files of large objects are the truth; the index is made from
// them. A log knows nothing of the files of large objects but their names; a
// bucket that has their bytes it tells of removals (Bucket).
package segment
