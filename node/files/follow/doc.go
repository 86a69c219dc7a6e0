// Package follow keeps a directory of this machine at what a name says.
//
// # Invariants
//
//   - A version reaches the directory only once it is listed, within its bounds, and all its files are
//     here and proved. Each file is replaced whole.
//   - What was edited here is never lost: if the name says something else, it is set aside under a name
//     of its own. An edited file that the name does not have any more stays.
//   - Only what an update wrote is removed, unless [Options.Mirror] is set. Files that were set aside stay.
//   - Nothing outside the directory is read, written or removed. No link is followed.
//   - One process follows a directory at a time.
//
// # One update
//
// [Dir.Update] reads the listing of the version, and compares each entry with the disk. It fetches what
// differs to a directory of its own inside the followed one, ".follow.allium-incoming", where an
// interrupted update finds it again. It notes in the ledger what it is about to write, renames the files
// into place, removes what the version does not have, and notes what there is now.
//
// The ledger is a file below the home directory of the node. It says what each update left at each path,
// so that an edited file is recognised. Without it, or if it is damaged, an update has written nothing:
// what differs is set aside, and nothing is removed.
//
// [Run] updates a directory again whenever the name says something new.
package follow
