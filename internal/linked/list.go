// Package linked has doubly linked lists in order of arrival whose nodes are part
// of what is listed: to push and to remove allocates nothing, unlike package
// container/list. A list and its nodes are guarded by a lock of the caller.
package linked

// List is a list of values of type T, the newest first. The zero List is empty; a
// List that is copied stays in use only as the copy.
type List[T any] struct {
	first, last *Node[T]
	n           int
}

// Node stands in a T, which is in at most one List by it. The zero Node is in none.
type Node[T any] struct {
	of         *T
	prev, next *Node[T]
}

// Len returns how many values l has.
func (l *List[T]) Len() int { return l.n }

// Push makes of, whose node n is in no list, the newest value.
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

// Remove takes out the value of n, which is in l.
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

// Oldest returns the value that was pushed first, nil when there is none.
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
