// Package b3 provides content addresses and the hash tree behind them. An
// address names an object; the tree proves that any part of the object belongs
// to that address.
//
// An address is the BLAKE3-256 of an object's plain bytes ([Root], SPEC §1).
// BLAKE3 is a binary Merkle tree. Its leaves here are chunk groups of 64 KiB. The
// chaining values beside a group's path to the root prove that group; no other
// part of the object is needed. The outboard of an object is the list of its
// parents, 64 bytes each, one fewer than it has groups.
//
// # Invariants
//
//   - Bytes leave this package as [Proved], or from a [Reader], only after they
//     hashed to the root. Until then data, outboard and size are claims.
//   - A size is a fact only after the last group is proved. No allocation grows
//     with a claimed size.
//   - Only the files kernel*.go hash, behind groupCV and parentCV. Only [Walk]
//     knows the item order of OAP1 §9; encoders, decoders and local reads use it.
//   - The outboard is in post-order: a parent's place depends on nothing after
//     it, so storing an object of unknown length only appends. The parents of
//     incomplete subtrees end the file.
//
// # One request
//
// To store an object, the caller writes its bytes to a [Hasher]. The Hasher
// appends parents to the outboard file, and [Hasher.Sum] returns root and size.
//
// A peer then asks for bytes 100,000–200,000. The server calls [NewWalk] with
// root, size and ranges. It calls [Walk.Fill] for each item, which reads from a
// [Source] over the two files into a frame. The peer makes the same walk from the
// same request and passes each item's bytes to [Walk.Accept]. The result is a
// [Proved], which may be stored or shown.
//
// An HTTP request reads the same way from local files, through
// [Reader.Section].
package b3
