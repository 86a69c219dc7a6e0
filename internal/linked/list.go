// Package linked provides intrusive doubly linked lists: the nodes are fields of the
// listed values. Unlike container/list, Push and Remove allocate nothing. The caller
// guards a list and its nodes with a lock.
package linked

// List is a list of values of type T in the order in which they were pushed. The zero
// List is empty. After a List was copied, only the copy may be used.
type List[T any] struct {
	first, last *Node[T]
	n           int
}

// Node is a field of a T, which can be in one List with it. The zero Node is in no
// List.
type Node[T any] struct {
	of         *T
	prev, next *Node[T]
}

// Len returns how many values l has.
func (l *List[T]) Len() int { return l.n }

// Push adds the value of as the newest. Its node n must be in no list.
func (l *List[T]) Push(n *Node[T], of *T) {
	n.of, n.prev, n.next = of, nil, l.first
	if l.first == nil {
		l.last = n
	} else {
		l.first.prev = n
	}
	l.first = n
	l.n++
}

// Remove removes the value with the node n, which must be in l.
func (l *List[T]) Remove(n *Node[T]) {
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
	l.n--
}

// Oldest returns the value that was pushed first, or nil if l is empty.
func (l *List[T]) Oldest() *T {
	if l.last == nil {
		return nil
	}
	return l.last.of
}

// FromOldest yields the values, the oldest first. The list must not change
// meanwhile.
func (l *List[T]) FromOldest(yield func(*T) bool) {
	for n := l.last; n != nil && yield(n.of); n = n.prev {
	}
}
