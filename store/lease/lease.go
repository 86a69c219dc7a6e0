// Package lease records which addresses are in use, so that no object is removed
// while it is read or written.
//
// A reader or writer calls Acquire before it looks the object up, and Release when
// it is done. A removal calls Remove, which returns conflict while the address is
// leased, and ends with the function that Remove returns. A put that leases an
// address calls Settle first, to wait for a removal that had begun. Leases are in
// RAM only: a crash ends them all.
package lease

import (
	"context"
	"strconv"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Table is the set of leases and of removals in progress. Its methods are safe
// for concurrent use.
//
// Invariant: no removal of a root begins while the root is leased. A lease that
// is acquired during a removal does not stop that removal; see Settle.
type Table struct {
	mu       sync.Mutex                // lock: leaf
	leases   map[b3.Root]int           // number of leases
	removals map[b3.Root]chan struct{} // removals in progress; closed when they end
	marks    map[b3.Root]struct{}      // roots whose corrupt flag is being set

	onRemove func(b3.Root)
}

// New returns an empty table. It calls onRemove with each root whose removal has
// begun. onRemove must not block.
func New(onRemove func(b3.Root)) *Table {
	return &Table{
		leases:   map[b3.Root]int{},
		removals: map[b3.Root]chan struct{}{},
		marks:    map[b3.Root]struct{}{},
		onRemove: onRemove,
	}
}

// Acquire adds a lease on root, which keeps removals of root from beginning until
// Release. Each Acquire needs its own Release.
func (t *Table) Acquire(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leases[root]++
}

// Release ends one lease on root.
func (t *Table) Release(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leases[root]--; t.leases[root] == 0 {
		delete(t.leases, root)
	}
}

// Settle waits until no removal of root is in progress, or returns the error of
// ctx. If the caller leases root, no removal begins afterwards.
func (t *Table) Settle(ctx context.Context, root b3.Root) error {
	t.mu.Lock()
	ended := t.removals[root]
	t.mu.Unlock()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Remove begins a removal of root. It returns conflict while root is leased or
// being removed. The caller calls end once, when it has removed the object or
// given up.
func (t *Table) Remove(root b3.Root) (end func(), err error) { return t.remove(root, 0) }

// RemoveLeased is Remove for a caller that has one lease on root and keeps it. It
// returns conflict while there is another one.
func (t *Table) RemoveLeased(root b3.Root) (end func(), err error) { return t.remove(root, 1) }

func (t *Table) remove(root b3.Root, own int) (end func(), err error) {
	if end, err = t.begin(root, own); err == nil {
		t.onRemove(root) // readers see the removal from here on
	}
	return end, err
}

// begin registers a removal by a caller that has own leases.
func (t *Table) begin(root b3.Root, own int) (end func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.leases[root] - own; n > 0 {
		users := "1 reader or writer"
		if n > 1 {
			users = strconv.Itoa(n) + " readers or writers"
		}
		return nil, status.Errorf(status.Conflict, "%s is in use by %s; try again later", root, users)
	}
	if t.removals[root] != nil {
		return nil, status.Errorf(status.Conflict, "%s is already being removed", root)
	}
	ended := make(chan struct{})
	t.removals[root] = ended
	return func() {
		t.mu.Lock()
		delete(t.removals, root)
		t.mu.Unlock()
		close(ended)
	}, nil
}

// InUse reports whether root is leased.
func (t *Table) InUse(root b3.Root) bool { return t.Count(root) > 0 }

// Count returns the number of leases on root.
func (t *Table) Count(root b3.Root) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leases[root]
}

// Removing reports whether a removal of root is in progress.
func (t *Table) Removing(root b3.Root) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removals[root] != nil
}

// Mark returns true if the caller may set root's corrupt flag; the caller calls
// Unmark when it has. It returns false while another caller sets the flag. Then
// there is nothing left to do: only whole objects get the flag, and only a put
// replaces an object that has it.
func (t *Table) Mark(root b3.Root) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.marks[root]; ok {
		return false
	}
	t.marks[root] = struct{}{}
	return true
}

// Unmark ends a Mark that returned true.
func (t *Table) Unmark(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.marks, root)
}

// Leased returns the number of leased addresses.
func (t *Table) Leased() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.leases)
}
