// Package follow keeps a directory of this machine at what a name says.
//
// # Invariants
//
//   - A version reaches the directory only once it is listed, within its bounds, and all its files are
//     here and proved. Each file is replaced whole.
//   - A file that was edited here is never lost: if the new version has another one, the edited file is renamed and
//     kept beside it. An edited file that the new version does not have stays.
//   - Only what an update wrote is removed, unless [Options.Mirror] is set. Files that were set aside stay.
//   - Nothing outside the directory is read, written or removed. No link is followed.
//   - One process follows a directory at a time.
//
// # One update
//
// [Dir.Update] reads the listing of the version, and compares each entry with the disk. It fetches the entries that
// differ to a separate directory inside the followed one, ".follow.allium-incoming", where an interrupted update finds
// them again. It records in the ledger the files that it is about to write, renames them into place, removes the files
// that the version does not have, and records the state of the directory.
//
// The ledger is a file below the home directory of the node. It says what each update left at each path, so that an
// edited file is recognised. If the ledger is missing or damaged, every file counts as edited: an update sets those
// that differ aside, and removes nothing.
//
// [Run] updates a directory again whenever the name says something new.
package follow
