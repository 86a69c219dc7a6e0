package home

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/status"
)

// TestHomeLock: a home directory has one user at a time, also where nothing can
// be written.
func TestHomeLock(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(home string) error{
		"writable": func(string) error { return nil },
		"lock that cannot be opened for writing": func(home string) error {
			return os.MkdirAll(filepath.Join(home, lockFile), 0o500) // root writes to any file
		},
	} {
		home := filepath.Join(t.TempDir(), "home")
		if err := spoil(home); err != nil {
			t.Fatal(err)
		}
		unlock, err := Lock(home)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err = Lock(home)
		if status.Of(err) != status.Busy || !strings.Contains(err.Error(), home) {
			t.Errorf("%s: a second user: %v", name, err)
		}
		unlock()
		unlock()
		again, err := Lock(home)
		if err != nil {
			t.Fatalf("%s: after the first: %v", name, err)
		}
		again()
	}
}
