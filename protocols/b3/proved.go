package b3

import "bytes"

// Proved is one item of a walk whose bytes were verified against the root. Only
// this package makes a valid Proved, so a function that takes a valid Proved
// never gets unverified bytes.
type Proved struct {
	root       Root
	size       int64
	item       Item
	data       []byte
	valid      bool
	sizeProved bool
}

// Valid reports whether p came from a walk. The zero Proved is not valid.
func (p Proved) Valid() bool { return p.valid }

// Root returns the address of the item's object.
func (p Proved) Root() Root { return p.root }

// Size returns the object's size in bytes that the walk was given. It is a claim
// unless SizeProved reports true.
func (p Proved) Size() int64 { return p.size }

// SizeProved reports whether the walk has verified the object's last group, with
// this item or an earlier one. This proves the size.
func (p Proved) SizeProved() bool { return p.sizeProved }

// IsParent reports whether the item is a parent rather than a group.
func (p Proved) IsParent() bool { return p.item.Parent }

// Node returns a parent's index in the outboard; the parent starts at byte
// Node × ParentSize. For parents on the right edge of the tree, the claimed size
// decides the index until SizeProved. Node returns 0 for a group.
func (p Proved) Node() int64 { return p.item.Node }

// Group returns a group's number, and 0 for a parent.
func (p Proved) Group() int64 { return p.item.Group }

// Offset returns the group's first byte in the object, and 0 for a parent.
func (p Proved) Offset() int64 { return p.item.Group * GroupSize }

// Data returns the item's bytes. It is the slice that the caller passed to
// [Walk.Accept] or [Walk.Fill]; p is usable until the caller changes it.
func (p Proved) Data() []byte { return p.data }

// Clone returns p with its own copy of the bytes.
func (p Proved) Clone() Proved {
	p.data = bytes.Clone(p.data)
	return p
}
