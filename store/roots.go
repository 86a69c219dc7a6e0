package store

import (
	"context"
	"slices"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// roots knows which addresses are in use. It is RAM only: a crash ends every
// use.
//
// Invariant: a root is not leased when its removal begins, and no removal
// begins while it is leased.
type roots struct {
	mu     sync.Mutex
	leases map[b3.Root]int
	gone   map[b3.Root]chan struct{} // removals under way; closed when over
	marks  map[b3.Root]struct{}      // whose corrupt flag is being set

	leaving func(b3.Root) // told of every removal when it has begun
}

func newRoots() *roots {
	return &roots{leases: map[b3.Root]int{}, gone: map[b3.Root]chan struct{}{}, marks: map[b3.Root]struct{}{}, leaving: func(b3.Root) {}}
}

// acquire keeps root from being removed until release, called once for each.
func (r *roots) acquire(root b3.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[root]++
}

func (r *roots) release(root b3.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leases[root]--; r.leases[root] == 0 {
		delete(r.leases, root)
	}
}

// settle waits until no removal of root is under way. With a lease on root none
// begins afterwards.
func (r *roots) settle(ctx context.Context, root b3.Root) error {
	r.mu.Lock()
	over := r.gone[root]
	r.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// remove begins a removal, or returns conflict while root is leased or being
// removed. The caller calls over when it is done or given up.
func (r *roots) remove(root b3.Root) (over func(), err error) {
	if over, err = r.begin(root); err == nil {
		r.leaving(root) // no reader that comes now brings it back
	}
	return over, err
}

func (r *roots) begin(root b3.Root) (over func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.leases[root]; n > 0 {
		return nil, status.Errorf(status.Conflict, "store: %s is in use (%d readers or writers); try again when they are done", root, n)
	}
	if r.gone[root] != nil {
		return nil, status.Errorf(status.Conflict, "store: %s is being removed already", root)
	}
	done := make(chan struct{})
	r.gone[root] = done
	return func() {
		r.mu.Lock()
		delete(r.gone, root)
		r.mu.Unlock()
		close(done)
	}, nil
}

// inUse reports whether root is leased.
func (r *roots) inUse(root b3.Root) bool { return r.count(root) > 0 }

// count is the number of root's leases.
func (r *roots) count(root b3.Root) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases[root]
}

func (r *roots) removing(root b3.Root) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone[root] != nil
}

// mark makes the caller the one that sets root's corrupt flag, until unmark. A
// second one has nothing to add: flags are set on objects that are whole only,
// and only a put replaces one that is not.
func (r *roots) mark(root b3.Root) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.marks[root]; ok {
		return false
	}
	r.marks[root] = struct{}{}
	return true
}

func (r *roots) unmark(root b3.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.marks, root)
}

// leased is the number of addresses under lease.
func (r *roots) leased() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.leases)
}

// Lease keeps objects from being removed, present or not, until release is
// called. release is idempotent. Leases are counted, live in RAM and end with
// the process; open objects, puts and ingests hold one of their own.
func (s *Store) Lease(roots ...b3.Root) (release func()) {
	roots = slices.Clone(roots)
	for _, root := range roots {
		s.roots.acquire(root)
	}
	return sync.OnceFunc(func() {
		for _, root := range roots {
			s.roots.release(root)
		}
	})
}
