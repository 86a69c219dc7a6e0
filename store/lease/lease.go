// Package lease knows which addresses are in use, so that no object is removed while
// somebody reads or writes it.
package lease

import (
	"context"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Table holds the leases on addresses and the removals under way. It is RAM only: a
// crash ends every use. Its methods are safe for concurrent use.
//
// Invariant: a root is not leased when its removal begins, and no removal
// begins while it is leased.
type Table struct {
	mu     sync.Mutex
	leases map[b3.Root]int
	gone   map[b3.Root]chan struct{} // removals under way; closed when over
	marks  map[b3.Root]struct{}      // whose corrupt flag is being set

	leaving func(b3.Root) // told of every removal when it has begun
}

// New returns an empty table. leaving is told of every removal when it has begun;
// it must not block.
func New(leaving func(b3.Root)) *Table {
	return &Table{leases: map[b3.Root]int{}, gone: map[b3.Root]chan struct{}{}, marks: map[b3.Root]struct{}{}, leaving: leaving}
}

// Acquire keeps root from being removed until Release, called once for each.
func (t *Table) Acquire(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leases[root]++
}

// Release ends one lease.
func (t *Table) Release(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leases[root]--; t.leases[root] == 0 {
		delete(t.leases, root)
	}
}

// Settle waits until no removal of root is under way. With a lease on root none
// begins afterwards.
func (t *Table) Settle(ctx context.Context, root b3.Root) error {
	t.mu.Lock()
	over := t.gone[root]
	t.mu.Unlock()
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

// Remove begins a removal, or returns conflict while root is leased or being
// removed. The caller calls over when it is done or given up.
func (t *Table) Remove(root b3.Root) (over func(), err error) {
	if over, err = t.begin(root); err == nil {
		t.leaving(root) // no reader that comes now brings it back
	}
	return over, err
}

func (t *Table) begin(root b3.Root) (over func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.leases[root]; n > 0 {
		return nil, status.Errorf(status.Conflict, "store: %s is in use (%d readers or writers); try again when they are done", root, n)
	}
	if t.gone[root] != nil {
		return nil, status.Errorf(status.Conflict, "store: %s is being removed already", root)
	}
	done := make(chan struct{})
	t.gone[root] = done
	return func() {
		t.mu.Lock()
		delete(t.gone, root)
		t.mu.Unlock()
		close(done)
	}, nil
}

// InUse reports whether root is leased.
func (t *Table) InUse(root b3.Root) bool { return t.Count(root) > 0 }

// Count is the number of root's leases.
func (t *Table) Count(root b3.Root) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leases[root]
}

// Removing reports whether a removal of root is under way.
func (t *Table) Removing(root b3.Root) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone[root] != nil
}

// Mark makes the caller the one that sets root's corrupt flag, until Unmark. A
// second one has nothing to add: flags are set on objects that are whole only,
// and only a put replaces one that is not.
func (t *Table) Mark(root b3.Root) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.marks[root]; ok {
		return false
	}
	t.marks[root] = struct{}{}
	return true
}

// Unmark ends what Mark began.
func (t *Table) Unmark(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.marks, root)
}

// Leased is the number of addresses under lease.
func (t *Table) Leased() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.leases)
}
