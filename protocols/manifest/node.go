package manifest

import (
	"bytes"

	"allium/protocols/b3"
)

// Magic is the first line of every manifest. It identifies a manifest and makes its
// address differ from the address of the bare CBOR.
const Magic = "allium-manifest/1\n"

// MaxNode is the largest size of a manifest in bytes, including the magic line.
const MaxNode = 1 << 20

// minNode is the size of the empty directory in bytes.
const minNode = int64(len(Magic)) + 3

// Node is one decoded manifest object: a directory, a leaf of a directory, or an
// index over nodes. Its names are valid and in ascending byte order. An index has
// at least one child.
type Node struct {
	Index    bool
	Entries  []Entry // of a directory or leaf; nil for an index
	Children []Child // of an index; nil for a directory
}

// Child is one node below an index.
type Child struct {
	First string  // name of the first entry in the child's subtree
	Root  b3.Root // address of the child
	Size  int64   // size of the child's object in bytes, at most MaxNode
}

// Ref is a reference from a node to an object.
type Ref struct {
	Root     b3.Root
	Size     int64 // size of the object in bytes
	Manifest bool  // whether the object is a manifest: a directory, or a node below an index
}

// IsManifest reports whether p begins with the magic line. An object of unknown
// type is a directory only if [Decode] accepts it too (SPEC §1).
func IsManifest(p []byte) bool { return bytes.HasPrefix(p, []byte(Magic)) }

// MayHave reports whether the leaf or index p may have an entry with the given name. It looks for the name in the
// bytes and decodes nothing, so false is certain for a leaf that [Decode] accepts, and true says little. For an index,
// which has the names of few entries, it is always true.
func MayHave(p []byte, name string) bool {
	const kindAt = len(Magic) + 2 // behind the head of the map and its first key
	return len(p) > kindAt && p[kindAt] == kindIndex || bytes.Contains(p, []byte(name))
}

// Decode decodes one whole manifest object. It re-encodes the node and compares,
// so it accepts only the node's single encoding. The error is [ErrNotManifest],
// an [*EntryError], or another error with the outcome bad_request. Decode
// allocates less than 20 times MaxNode for any p and does not retain p.
func Decode(p []byte) (*Node, error) {
	body, ok := bytes.CutPrefix(p, []byte(Magic))
	if !ok {
		return nil, ErrNotManifest
	}
	if len(p) > MaxNode {
		return nil, malformed("it has %d bytes, the limit is %d", len(p), MaxNode)
	}
	var w wireNode
	if err := decoder.Unmarshal(body, &w); err != nil {
		return nil, malformed("%w", err)
	}
	var again bytes.Buffer
	again.Grow(len(body))
	if err := encode(&again, &w); err != nil {
		return nil, malformed("%w", err)
	}
	if !bytes.Equal(again.Bytes(), body) {
		return nil, malformed("it is not in the deterministic encoding")
	}
	return w.node()
}

// node converts w to a Node and checks the rules beyond the encoding.
func (w *wireNode) node() (*Node, error) {
	for i := 1; i < len(w.Entries); i++ {
		if err := checkOrder(w.Entries[i-1].Name, w.Entries[i].Name); err != nil {
			return nil, err
		}
	}
	n := &Node{}
	switch w.Kind {
	case kindDirectory:
		n.Entries = make([]Entry, len(w.Entries))
		for i := range w.Entries {
			e, err := w.Entries[i].entry()
			if err != nil {
				return nil, err
			}
			n.Entries[i] = e
		}
	case kindIndex:
		if len(w.Entries) == 0 {
			return nil, malformed("the index has no children")
		}
		n.Index, n.Children = true, make([]Child, len(w.Entries))
		for i := range w.Entries {
			c, err := w.Entries[i].child()
			if err != nil {
				return nil, err
			}
			n.Children[i] = c
		}
	default:
		return nil, malformed("it has the unknown kind %d", w.Kind)
	}
	return n, nil
}

// checkOrder returns an *EntryError unless prev < next.
func checkOrder(prev, next string) error {
	if prev < next {
		return nil
	}
	if prev == next {
		return invalidEntry(next, "the name occurs twice")
	}
	return invalidEntry(next, "the name is out of order: it follows %q", prev)
}

// first returns the name of the first entry or child, or "".
func (n *Node) first() string {
	switch {
	case n.Index:
		return n.Children[0].First
	case len(n.Entries) > 0:
		return n.Entries[0].Name
	}
	return ""
}

// last returns the name of the last entry or child, or "".
func (n *Node) last() string {
	switch {
	case n.Index:
		return n.Children[len(n.Children)-1].First
	case len(n.Entries) > 0:
		return n.Entries[len(n.Entries)-1].Name
	}
	return ""
}

// Refs returns the objects that the node refers to, in order. Links have no Ref. A
// caller that follows a tree must follow only Refs with Manifest set.
func (n *Node) Refs() []Ref {
	refs := make([]Ref, 0, len(n.Entries)+len(n.Children))
	for _, c := range n.Children {
		refs = append(refs, Ref{Root: c.Root, Size: c.Size, Manifest: true})
	}
	for i := range n.Entries {
		if e := &n.Entries[i]; e.Kind != Link {
			refs = append(refs, Ref{Root: e.Root, Size: e.Size, Manifest: e.Kind == Directory})
		}
	}
	return refs
}
