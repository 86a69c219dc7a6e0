package b3

// GroupHasher computes the address of an object from its groups, in order. It keeps none of the bytes, so many
// objects can be hashed side by side. It is not safe for concurrent use. The zero GroupHasher is ready.
type GroupHasher struct {
	tree treeBuilder
	only Root // of the first group, if it is the only one
}

// Add hashes the next group, which is full unless it is the last one.
func (h *GroupHasher) Add(group []byte) {
	if h.tree.groups == 0 {
		h.only = Sum(group)
	}
	h.tree.push(groupCV(group, h.tree.groups, false))
}

// Sum returns the address of the object that ends with the latest group.
func (h *GroupHasher) Sum() Root {
	if h.tree.groups < 2 {
		return h.only
	}
	return h.tree.root()
}
