package lease

import (
	"context"
	"testing"
	"testing/synctest"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestRemove: no removal begins while a root is leased or being removed, and Settle
// waits for the end of one.
func TestRemove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left []b3.Root
		table := New(func(root b3.Root) { left = append(left, root) })
		root := b3.Root{1}
		table.Acquire(root)
		table.Acquire(root)
		for range 2 {
			if _, err := table.Remove(root); status.Of(err) != status.Conflict {
				t.Fatalf("the removal of what is leased: %v", err)
			}
			table.Release(root)
		}
		if table.Leased() != 0 || len(left) != 0 {
			t.Fatalf("%d are leased, %v left", table.Leased(), left)
		}
		over, err := table.Remove(root)
		if err != nil || !table.Removing(root) || len(left) != 1 {
			t.Fatalf("%v, %v left", err, left)
		}
		if _, err := table.Remove(root); status.Of(err) != status.Conflict {
			t.Fatalf("a second removal: %v", err)
		}
		table.Acquire(root)
		ctx, cancel := context.WithCancel(t.Context())
		hurried, settled := make(chan error, 1), make(chan error, 1)
		go func() { hurried <- table.Settle(ctx, root) }()
		go func() { settled <- table.Settle(t.Context(), root) }()
		synctest.Wait()
		cancel()
		if err := <-hurried; err == nil {
			t.Error("Settle did not wait")
		}
		select {
		case err := <-settled:
			t.Errorf("Settle did not wait: %v", err)
		default:
		}
		over()
		if err := <-settled; err != nil {
			t.Error(err)
		}
		if err := table.Settle(t.Context(), root); err != nil || table.Removing(root) || table.Count(root) != 1 {
			t.Errorf("after the removal: %v, %d leases", err, table.Count(root))
		}
	})
}

// TestMark: one caller at a time marks a root.
func TestMark(t *testing.T) {
	t.Parallel()
	table, root := New(func(b3.Root) {}), b3.Root{1}
	if !table.Mark(root) || table.Mark(root) {
		t.Fatal("two callers mark one root")
	}
	table.Unmark(root)
	if !table.Mark(root) {
		t.Fatal("nobody marks it again")
	}
}
