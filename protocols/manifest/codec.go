package manifest

import (
	"bytes"

	"github.com/fxamacker/cbor/v2"

	"allium/protocols/b3"
)

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

// The kinds of nodes.
const (
	kindDirectory = 1
	kindIndex     = 2
)

// maxEntries is more than the entries that a node can have.
const maxEntries = MaxNode / MinItem

var encoder = must(cbor.CoreDetEncOptions().UserBufferEncMode())

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

// entry converts it to a checked Entry.
func (it *item) entry() (Entry, error) {
	e := Entry{
		Name: string(it.name), Kind: EntryKind(it.kind), Size: it.size, Executable: it.executable,
		Target: string(it.target),
	}
	if len(it.digest) == b3.Size {
		e.Root = b3.Root(it.digest)
	} else if len(it.digest) != 0 {
		return e, invalidEntry(e.Name, "the digest has %d bytes, not %d", len(it.digest), b3.Size)
	}
	return e, e.check()
}

func (c *Child) wire() *wireEntry {
	return &wireEntry{Name: c.First, Digest: c.Root[:], Size: c.Size}
}

// child converts it to a checked Child.
func (it *item) child() (Child, error) {
	if it.kind != 0 || it.executable || len(it.target) != 0 {
		return Child{}, invalidEntry(string(it.name), "an index entry has only a name, a digest and a size")
	}
	// The remaining rules are those of a directory entry.
	dir := *it
	dir.kind = uint8(Directory)
	e, err := dir.entry()
	return Child{First: e.Name, Root: e.Root, Size: e.Size}, err
}

// check returns an error unless the item is valid in its node.
func (it *item) check(index bool) (err error) {
	if index {
		_, err = it.child()
	} else {
		_, err = it.entry()
	}
	return err
}
