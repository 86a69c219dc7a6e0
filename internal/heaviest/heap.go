// Package heaviest provides a heap with the heaviest item first. Each item stores its own
// index, so Fix, after its weight changed, and Remove take O(log n).
package heaviest

import "container/heap"

// Item is an element of a Heap.
type Item interface { //lockcheck:computes an item returns what it has
	comparable
	// Weight orders the items.
	Weight() int64
	// Place returns where the heap stores the item's index. An item is in at most one heap.
	Place() *int
}

// Heap holds items, the heaviest at index 0. The zero Heap is empty. It is not safe for
// concurrent use.
type Heap[T Item] []T

// Push adds x.
func (h *Heap[T]) Push(x T) { heap.Push((*order[T])(h), x) }

// Fix restores the order after the weight of x changed.
func (h *Heap[T]) Fix(x T) { heap.Fix((*order[T])(h), *x.Place()) }

// Remove removes x.
func (h *Heap[T]) Remove(x T) { heap.Remove((*order[T])(h), *x.Place()) }

// order implements heap.Interface.
type order[T Item] []T

func (o order[T]) Len() int           { return len(o) }
func (o order[T]) Less(i, j int) bool { return o[i].Weight() > o[j].Weight() }

func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	*o[i].Place(), *o[j].Place() = i, j
}

func (o *order[T]) Push(x any) {
	item := x.(T)
	*item.Place() = len(*o)
	*o = append(*o, item)
}

func (o *order[T]) Pop() any {
	last := len(*o) - 1
	item := (*o)[last]
	clear((*o)[last:])
	*o = (*o)[:last]
	return item
}
