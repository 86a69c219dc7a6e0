// Package b3 is the content address and the tree behind it: what an object is
// called, and how any part of it is proved to belong to that name.
//
// An address is the BLAKE3-256 of an object's plain bytes ([Root], SPEC §1).
// BLAKE3 is itself a binary Merkle tree, so a 64 KiB chunk group can be proved
// with the chaining values beside its path and nothing else of the object. The
// chaining values of an object, 64 bytes for every group but the first, are its
// outboard.
//
// # Invariants
//
//   - Bytes leave this package as [Proved], or from a [Reader], only after they
//     hashed to the root. Data, outboard and size are claims until then.
//   - A size is a fact only when the last group is proved; nothing is allocated
//     in proportion to a claimed one.
//   - Only kernel*.go hash, behind groupCV and parentCV. Only [Walk] knows the
//     order of OAP1 §9; the encoder, the decoder and local reads are all it.
//   - The outboard is in post-order: a parent's place depends on nothing that
//     comes after it, so a put of unknown length only appends. Parents of
//     subtrees that stay incomplete close the file.
//
// # One request, walked through
//
// A put streams its bytes into a [Hasher], which writes parents to the outboard
// file and ends with root and size. A peer asks for bytes 100,000–200,000: the
// server makes NewWalk(root, size, ranges) and calls [Walk.Fill] with the files
// as [Source], item by item, straight into frames. The peer makes the same walk
// from the same request and hands it each item's bytes with [Walk.Accept];
// what comes back is Proved and may be stored or shown. A browser's request is
// the same walk over the local files, behind [Reader.Section].
package b3
