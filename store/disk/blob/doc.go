// Package blob stores large objects as files, and the unfinished files of puts,
// downloads and uploads. With a [Remote], the bytes of objects are there and only
// their outboards are files. FORMAT.md in package store describes every file.
//
// # Invariants
//
//   - A file in obj/ is renamed there only when it is whole and synced, and its
//     object is in the log afterwards. A file without a record is therefore an
//     orphan: a crash left it, or its record was lost.
//   - The groups that a note file names are on disk: their bytes are synced before the note.
//   - A note is durable before its files and is removed before them. Files without a
//     note are damage and go to quarantine/.
//   - Nothing here verifies what it reads, except Rehash and the adoption of orphans.
//
// # Life of an object
//
// Stage creates two files in tmp/. Publish syncs them, puts the bytes into the Remote
// if there is one, renames the files into obj/, and adds the object to the log
// ([Log].AddFiles). Publications at the same time share directory syncs. A deferred
// publication waits for Flush. OpenPair opens the files, and Unlink removes them after
// the object has left the index.
//
// A download begins in tmp/ too. The first Save moves its files to part/ beside a note
// (note.go); Resume opens them after a restart. An upload is in part/ from the start:
// OpenUpload, then NoteUpload for each acknowledged piece.
//
// At the start, [Files.Recover] makes part/ agree with the notes, finishes removals and
// lists orphans. [Files.Serve] then adopts orphans whose bytes match their name, and
// moves the others to quarantine/.
package blob
