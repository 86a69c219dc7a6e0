package openmode_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"allium/internal/openmode"
)

// TestOf opens a file in every way.
func TestOf(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const oPath = 0o10_000_000
	modes := map[int]openmode.Mode{
		os.O_WRONLY | os.O_CREATE: {Write: true}, os.O_RDONLY | os.O_CREATE: {Read: true},
		os.O_RDWR | os.O_CREATE:                 {Read: true, Write: true},
		os.O_WRONLY | os.O_APPEND | os.O_CREATE: {Write: true, Append: true},
	}
	if runtime.GOOS == "linux" {
		modes[os.O_RDONLY|oPath] = openmode.Mode{}
	}
	for flags, want := range modes {
		f, err := os.OpenFile(name, flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := openmode.Of(f); err != nil || got != want {
			t.Errorf("%#x: %+v, %v", flags, got, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := openmode.Of(f); err == nil {
			t.Error("a closed file has a mode")
		}
	}
}
