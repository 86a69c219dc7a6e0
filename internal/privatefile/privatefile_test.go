package privatefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/privatefile"
	"allium/protocols/status"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "key")
	if _, err := privatefile.Read(name, 3, privatefile.NoAccess); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := privatefile.Read(dir, 3, privatefile.NoAccess); status.Of(err) != status.Corrupt {
		t.Errorf("a directory: %v", err)
	}
	for _, c := range []struct {
		mode    fs.FileMode
		refused fs.FileMode
		ok      bool
	}{
		{0o600, privatefile.NoAccess, true},
		{0o400, privatefile.NoAccess, true},
		{0o640, privatefile.NoAccess, false},
		{0o644, privatefile.NoWrites, true},
		{0o664, privatefile.NoWrites, false},
	} {
		if err := errors.Join(os.WriteFile(name, []byte("12345"), 0o600), os.Chmod(name, c.mode)); err != nil {
			t.Fatal(err)
		}
		p, err := privatefile.Read(name, 3, c.refused)
		switch {
		case c.ok && (err != nil || string(p) != "1234"):
			t.Errorf("%04o: %q, %v", c.mode, p, err)
		case !c.ok && (status.Of(err) != status.Forbidden || !strings.Contains(err.Error(), "chmod 600 "+name)):
			t.Errorf("%04o: %v", c.mode, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
