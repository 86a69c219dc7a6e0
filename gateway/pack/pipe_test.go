//go:build unix

package pack

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"allium/protocols/status"
)

// TestPipeIsNoPack: a named pipe is refused, at mount and in place of a mounted pack, without waiting for
// somebody who writes to it.
func TestPipeIsNoPack(t *testing.T) {
	t.Parallel()
	s := startSet(t, map[string]Mount{"city": {File: "city.pmtiles"}},
		map[string][]byte{"city.pmtiles": archiveOf(1, "a")})
	pipe := filepath.Join(s.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mount(t.Context(), "pipe", Mount{File: "pipe"}, nil); status.Of(err) != status.BadRequest {
		t.Errorf("mount: %v", err)
	}
	if err := os.Rename(pipe, filepath.Join(s.dir, "city.pmtiles")); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); status.Of(err) != status.BadRequest {
		t.Errorf("reload: %v", err)
	}
	if have, _, _ := s.Shut(); have != 1 {
		t.Error("the old state is not served any more")
	}
}
