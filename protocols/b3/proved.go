package b3

import "bytes"

// Proved is one item of a walk whose bytes hashed to the root. Only this
// package makes one that is Valid, so whoever takes a Proved cannot be handed
// bytes that nobody checked.
type Proved struct {
	root       Root
	size       int64
	item       Item
	data       []byte
	valid      bool
	sizeProved bool
}

// Valid reports whether p came from a walk; the zero Proved did not.
func (p Proved) Valid() bool { return p.valid }

// Root is the address of the object that the item belongs to.
func (p Proved) Root() Root { return p.root }

// Size is the object's size in bytes as the walk was given it: a claim unless
// SizeProved.
func (p Proved) Size() int64 { return p.size }

// SizeProved reports whether this item or one before it in the same walk was
// the last group, which makes Size a fact.
func (p Proved) SizeProved() bool { return p.sizeProved }

// IsParent reports whether the item is a parent rather than a group.
func (p Proved) IsParent() bool { return p.item.Parent }

// Node is a parent's index in the outboard, whose bytes start at
// Node × ParentSize. Until SizeProved, parents on the right edge of the tree
// have the place that the claimed size gives them. It is 0 for a group.
func (p Proved) Node() int64 { return p.item.Node }

// Group is a group's number. It is 0 for a parent.
func (p Proved) Group() int64 { return p.item.Group }

// Offset is where a group starts in the object, in bytes. It is 0 for a parent.
func (p Proved) Offset() int64 { return p.item.Group * GroupSize }

// Data is the item's bytes. It is the slice that was given to [Walk.Accept] or
// [Walk.Fill], good for as long as that is.
func (p Proved) Data() []byte { return p.data }

// Clone returns p with bytes of its own, good for ever.
func (p Proved) Clone() Proved {
	p.data = bytes.Clone(p.data)
	return p
}
