// Package denylist knows what this node does not serve, fetch, take or
// announce (SPEC §9).
//
// A list is one or more text files of one entry a line; "#" begins a comment.
//
//	b3:<64 hex digits>          an object, under whatever name
//	bafkr4i…                    the same, as a CID
//	b3:<64 hex digits>/a/b      what a directory has at that path, and below it
//	//<64 hex digits>           any of these, without saying which: the SHA-256
//	                            of the entry above, or of "<cid>/" and "<cid>/a/b"
//	                            as lists of IPFS have it
//
// Invariants:
//
//   - A file is taken whole or not at all: a line that is no entry fails it.
//   - Answers come from an immutable set, without a lock and without waiting.
//   - A list that cannot be read any more leaves the one before in force. To
//     empty one, empty its file.
//   - Memory is bounded: 1,000,000 entries of 32 bytes each, 64 MiB of files.
//
// One request, walked through: GET /b3/b3:…/a/b asks [View.Path] about the
// address, which looks it up among the objects, and "a" and "a/b" below it among
// the paths, each a binary search; double hashes are made only where a list has
// some. The entry that is found at the path is an object again and asked about
// with [View.Object].
package denylist
