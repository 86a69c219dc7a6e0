// Package denylist tells which content the operator's lists deny. The node does not serve, fetch,
// store or announce denied content (SPEC §9).
//
// A list is one or more text files with one entry a line. "#" begins a comment.
//
//	b3:<64 hex digits>          an object, wherever it is
//	bafkr4i…                    the same, as a CID
//	b3:<64 hex digits>/a/b      the entry of a directory at that path, and everything below it
//	name:<label>.<zone key>     a name, in every spelling that stands for it
//	name:*.<zone key>           every name of a zone; also name:<zone key>
//	//<64 hex digits>           any of these without naming it: the SHA-256 of the entry above, or
//	                            of "<cid>/" or "<cid>/a/b", as in lists for IPFS
//
// Invariants:
//
//   - A file is loaded whole or not at all. A malformed line fails the file.
//   - Lookups read an immutable set. They take no lock and never wait.
//   - If a list cannot be read again, the old one stays in force. To deny nothing, empty the file.
//   - Memory is bounded: 1,000,000 entries of 32 bytes each, from 64 MiB of files.
//
// Names are denied by the key of their zone alone: a short name may mean another zone tomorrow.
//
// One request, walked through: GET /b3/b3:…/a/b calls [View.Path]. It looks up the address among
// the objects, and "a" and "a/b" below it among the paths, each with a binary search. It computes
// double hashes only if a list has any. The entry at the path is an object too, and the gateway
// checks it with [View.Object].
package denylist
