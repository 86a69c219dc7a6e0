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

// MinItem is the size of the shortest item of a node in bytes: a link with a name and a
// target of one byte.
const MinItem = 9

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

// Decode decodes one whole manifest object. It accepts only the node's single
// encoding. The error is [ErrNotManifest], an [*EntryError], or another error with
// the outcome bad_request. Decode allocates less than 20 times MaxNode for any p
// and does not retain p.
func Decode(p []byte) (*Node, error) {
	s := scan(p)
	if err := s.begin(); err != nil {
		return nil, err
	}
	n, count := &Node{Index: s.index()}, min(s.count, len(p)/MinItem)
	if n.Index {
		n.Children = make([]Child, 0, count)
	} else {
		n.Entries = make([]Entry, 0, count)
	}
	var it item
	for {
		ok, err := s.next(&it)
		if err != nil {
			return nil, err
		}
		if !ok {
			return n, nil
		}
		if n.Index {
			c, err := it.child()
			if err != nil {
				return nil, err
			}
			n.Children = append(n.Children, c)
			continue
		}
		e, err := it.entry()
		if err != nil {
			return nil, err
		}
		n.Entries = append(n.Entries, e)
	}
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

// Refs returns the objects that the manifest p refers to, as [Node.Refs] does, never nil.
// It checks p as [Decode] does, and allocates little beside its result.
func Refs(p []byte) ([]Ref, error) {
	s := scan(p)
	refs := []Ref{}
	_, err := s.check(func(index bool, it *item) error {
		if kind := EntryKind(it.kind); index || kind != Link {
			refs = append(refs, Ref{Root: b3.Root(it.digest), Size: it.size, Manifest: index || kind == Directory})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return refs, nil
}
