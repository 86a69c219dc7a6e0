package manifest

import (
	"bytes"

	"github.com/fxamacker/cbor/v2"

	"allium/protocols/b3"
)

// wireNode is the map after the magic line (OAP1.md §11).
type wireNode struct {
	Kind    uint8       `cbor:"0,keyasint"`
	Entries []wireEntry `cbor:"1,keyasint,omitempty"`
}

// wireEntry is an entry of a directory or an index. An entry of an index has only
// name, digest and size. Members with their default value are omitted.
type wireEntry struct {
	Name       string `cbor:"0,keyasint,omitempty"`
	Kind       uint8  `cbor:"1,keyasint,omitempty"`
	Digest     []byte `cbor:"2,keyasint,omitempty"`
	Size       int64  `cbor:"3,keyasint,omitempty"`
	Executable bool   `cbor:"4,keyasint,omitempty"`
	Target     string `cbor:"5,keyasint,omitempty"`
}

// The numbers of wireNode.Kind.
const (
	kindDirectory = 1
	kindIndex     = 2
)

// maxEntries bounds what the decoder allocates for a node of items that are too
// short to be entries. A valid entry has at least 8 bytes.
const maxEntries = MaxNode / 8

var (
	encoder = must(cbor.CoreDetEncOptions().UserBufferEncMode())
	decoder = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
		MaxNestedLevels:   4,
		MaxMapPairs:       16,
		MaxArrayElements:  maxEntries,
	}.DecMode())
)

// must panics on an error. It is for the constant options above.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// encode appends v to buf. The wire types can always be encoded, so an error is a
// bug.
func encode(buf *bytes.Buffer, v any) error { return encoder.MarshalToBuffer(v, buf) }

func (e *Entry) wire() *wireEntry {
	w := &wireEntry{Name: e.Name, Kind: uint8(e.Kind), Size: e.Size, Executable: e.Executable, Target: e.Target}
	if e.Kind != Link {
		w.Digest = e.Root[:]
	}
	return w
}

// entry converts w to a checked Entry.
func (w *wireEntry) entry() (Entry, error) {
	e := Entry{Name: w.Name, Kind: EntryKind(w.Kind), Size: w.Size, Executable: w.Executable, Target: w.Target}
	if len(w.Digest) == b3.Size {
		e.Root = b3.Root(w.Digest)
	} else if len(w.Digest) != 0 {
		return e, invalidEntry(w.Name, "the digest has %d bytes, not %d", len(w.Digest), b3.Size)
	}
	return e, e.check()
}

func (c *Child) wire() *wireEntry {
	return &wireEntry{Name: c.First, Digest: c.Root[:], Size: c.Size}
}

// child converts w to a checked Child.
func (w *wireEntry) child() (Child, error) {
	if w.Kind != 0 || w.Executable || w.Target != "" {
		return Child{}, invalidEntry(w.Name, "an index entry has only a name, a digest and a size")
	}
	// The remaining rules are those of a directory entry.
	dir := *w
	dir.Kind = uint8(Directory)
	e, err := dir.entry()
	return Child{First: e.Name, Root: e.Root, Size: e.Size}, err
}
