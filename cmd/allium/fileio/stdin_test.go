package fileio

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"allium/protocols/status"
)

// TestInterruptedInputLeavesNothing: Ctrl-C ends an add that waits for input
// or has more than enough of it.
func TestInterruptedInputLeavesNothing(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // open to the end: the input is idle
	endless, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer endless.Close()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for what, input := range map[string]*os.File{"idle": r, "endless": endless} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, _, err := spool(ctx, input, "stdin")
		cancel()
		if status.Of(err) != status.Timeout {
			t.Errorf("%s input: got %v, want the end of the context", what, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
