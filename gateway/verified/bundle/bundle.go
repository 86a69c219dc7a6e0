// Package bundle encodes and decodes a directory with the objects below it and their proofs, as one stream: manifests
// and small files in the order in which a reader of the tree needs them. FORMAT.md describes the format.
//
// Invariants:
//
//   - A [Reader] returns only bytes that hash to the address that the caller asked for, which the caller has from a
//     manifest that the Reader returned before.
//   - A bundle that ends before its last record is cut. It never looks whole.
//   - A Reader holds one object. No allocation grows with what the stream claims.
//
// One directory, read: manifest.Walk asks for the manifest of the directory and then for each object below it, and each
// time the caller calls [Reader.Object] with the address. The record that comes next must be that of this object. At
// the end the caller calls [Reader.End].
package bundle

import (
	"encoding/binary"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// MediaType is the media type of a bundle.
const MediaType = "application/vnd.allium.bundle"

// Magic is the first line of a bundle. It names the version of the format.
const Magic = "allium-bundle/1\n"

// MaxBody is the size in bytes of the largest file that a bundle may have. A manifest is as long at most.
const MaxBody = manifest.MaxNode

// The kinds of records.
const (
	kindEnd     = 0 // the last record: Number is how many objects the tree has, and the address is the directory's
	kindObject  = 1 // the verified encoding of the whole object follows
	kindLeftOut = 2 // the object has to be asked for alone
)

// Sizes in bytes.
const (
	headerSize = len(Magic) + b3.Size
	recordSize = 1 + 4 + b3.Size
	sizeBytes  = 8 // the size at the front of a verified encoding
)

// record is the fixed part of a record. The verified encoding of an object follows it.
type record struct {
	kind   byte
	number uint32 // of the object in the walk, from 0
	root   b3.Root
}

func (r record) append(p []byte) []byte {
	p = binary.LittleEndian.AppendUint32(append(p, r.kind), r.number)
	return append(p, r.root[:]...)
}

// decodeRecord decodes recordSize bytes.
func decodeRecord(p []byte) record {
	return record{p[0], binary.LittleEndian.Uint32(p[1:]), b3.Root(p[5:recordSize])}
}
