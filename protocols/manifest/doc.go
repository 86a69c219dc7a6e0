// Package manifest encodes and decodes directories (SPEC §1, OAP1.md §11;
// FORMAT.md describes the format).
//
// A directory is an object like any other. Its bytes are a magic line and
// deterministic CBOR. A large directory is a tree of such objects: index nodes
// above leaves. The content decides where a node ends, so a small change rewrites
// few nodes, and reading and writing need bounded memory.
//
// Every size in this package counts the whole object, including the magic line.
// So do the bounds of 256 KiB and 1 MiB for nodes.
//
// # Invariants
//
//   - The same entries give the same address, in whatever way they were read.
//   - A node has exactly one encoding; [Decode] rejects every other.
//   - A directory says what its entries are; the content of an entry does not.
//   - A walk ends and holds a bounded number of bytes, whatever the nodes say.
//
// The package does no I/O. It reads objects with a [Getter], which verifies them,
// and writes objects with a [Putter].
//
// # One directory
//
// Package node/files lists a directory on disk, stores each file and calls
// [Builder.Add] for each name. The [Builder] passes finished nodes to its Putter,
// and [Builder.Close] returns the address. Elsewhere a command calls [Lookup] with
// the address and a path, which reads one node per level. It calls [Walk] with the
// directory that it found, and node/files/extract writes every entry to disk.
package manifest
