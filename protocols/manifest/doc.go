// Package manifest holds directories: how they are written and read (SPEC §1, OAP1.md §11; the format itself is in FORMAT.md).
//
// A directory is an object like any other. Its bytes are the magic line and
// deterministic CBOR; a large directory is a tree of such objects, index nodes
// over leaves, cut where the content says, so that memory is bounded for a
// directory of any size and a small change rewrites little. Every size in this
// package, and the bounds of 256 KiB and 1 MiB that cut nodes, count the whole
// object, magic line included: they are sizes that a store or a peer reports.
//
// Invariants:
//   - The same entries give the same address, however they were read.
//   - A node has one encoding; [Decode] refuses every other.
//   - What an entry is comes from its parent, never from its content.
//   - A walk ends and holds a bounded number of bytes, whatever the nodes say.
//
// The package does no I/O: it reads objects with a [Getter]
// that has verified them and writes them with a [Putter].
//
// One directory, walked through: package node/tree lists a directory on disk, puts
// every file and calls [Builder.Add] for each name; the builder hands finished
// nodes to its Putter and Close returns the address. Elsewhere a command calls
// [Lookup] with that address and a path, which reads one node per level, and
// [Walk] with the directory found, and node/tree/extract writes every entry.
package manifest
