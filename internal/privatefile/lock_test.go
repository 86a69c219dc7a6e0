package privatefile_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"allium/internal/privatefile"
)

// TestLocked: one runs at a time, and one that waits ends with its context.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "home")
	failed := errors.New("failed")
	err := privatefile.Locked(t.Context(), dir, func() error {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(failed)
		if err := privatefile.Locked(ctx, dir, func() error {
			t.Error("two run at a time")
			return nil
		}); err == nil {
			t.Error("the second one did not wait")
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if err := privatefile.Locked(t.Context(), dir, func() error { return nil }); err != nil {
		t.Errorf("the lock was not given back: %v", err)
	}
}
