package proofs

import (
	"sync"

	"allium/protocols/b3"
)

// News has the objects whose holders changed since these were kept. It is safe for concurrent use.
type News struct {
	mu    sync.Mutex           // lock: leaf
	roots map[b3.Root]struct{} // at most maxNews
}

// Add notes objects. One more than maxNews is kept with its page.
func (n *News) Add(roots []b3.Root) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, root := range roots {
		if len(n.roots) < maxNews {
			n.roots[root] = struct{}{}
		}
	}
}

// take removes and returns up to newsBatch objects.
func (n *News) take() (roots []b3.Root) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for root := range n.roots {
		if len(roots) == newsBatch {
			break
		}
		delete(n.roots, root)
		roots = append(roots, root)
	}
	return roots
}
