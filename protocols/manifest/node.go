package manifest

import (
	"bytes"

	"allium/protocols/b3"
)

// Magic is the line a manifest begins with. It makes a manifest recognisable
// and its address differ from that of the bare CBOR.
const Magic = "allium-manifest/1\n"

// MaxNode is the size in bytes that no manifest exceeds, magic line included.
const MaxNode = 1 << 20

// minNode is the size of the empty directory.
const minNode = int64(len(Magic)) + 3

// Node is one decoded manifest object: a directory, or a leaf of one, or an
// index over nodes.
// Invariant: names are valid and ascend bytewise; an index has children.
type Node struct {
	Index    bool
	Entries  []Entry // of a directory or leaf; nil for an index
	Children []Child // of an index; nil for a directory
}

// Child is one node below an index.
type Child struct {
	First string  // name of the first entry below
	Root  b3.Root // address of the node
	Size  int64   // bytes of the node's object, ≤ MaxNode
}

// Ref is an object that a node names.
type Ref struct {
	Root     b3.Root
	Size     int64 // bytes of the object
	Manifest bool  // to be read as a manifest too: a directory, or a node below an index
}

// IsManifest reports whether p begins with the magic line. An untyped object
// is a directory only when [Decode] agrees (SPEC §1).
func IsManifest(p []byte) bool { return bytes.HasPrefix(p, []byte(Magic)) }

// Decode reads one whole manifest object. A node has one encoding and Decode
// accepts no other: it re-encodes what it read and compares. The error is [ErrNotManifest], a [*EntryError] or another one with
// the outcome bad_request. It allocates less than 20 times MaxNode
// whatever p holds, and keeps nothing of p.
func Decode(p []byte) (*Node, error) {
	body, ok := bytes.CutPrefix(p, []byte(Magic))
	if !ok {
		return nil, ErrNotManifest
	}
	if len(p) > MaxNode {
		return nil, malformed("%d bytes, the limit is %d", len(p), MaxNode)
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
		return nil, malformed("not in the deterministic encoding")
	}
	return w.node()
}

// node checks what the encoding alone does not.
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
			return nil, malformed("an index of nothing")
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
		return nil, malformed("unknown kind of node %d", w.Kind)
	}
	return n, nil
}

// checkOrder returns a *EntryError unless next may follow prev.
func checkOrder(prev, next string) error {
	if prev < next {
		return nil
	}
	if prev == next {
		return refuse(next, "the name is there twice")
	}
	return refuse(next, "out of order: it follows %q", prev)
}

// first is the name of the first entry or child, "" when there is none.
func (n *Node) first() string {
	switch {
	case n.Index:
		return n.Children[0].First
	case len(n.Entries) > 0:
		return n.Entries[0].Name
	}
	return ""
}

// last is the name of the last entry or child, "" when there is none.
func (n *Node) last() string {
	switch {
	case n.Index:
		return n.Children[len(n.Children)-1].First
	case len(n.Entries) > 0:
		return n.Entries[len(n.Entries)-1].Name
	}
	return ""
}

// Refs lists the objects that the node names, in order, links left out. What a
// Ref is comes from here: whoever follows a tree follows Manifest refs only.
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
