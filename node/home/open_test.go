package home

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestCheck: a directory is a home if it has a file that only homes have.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "home")
	none := func(when string) {
		t.Helper()
		if err := Check(dir); status.Of(err) != status.NotFound || !errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", when, err)
		}
	}
	none("nothing")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none("a file")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"notes.txt", "store/obj/x"}, marks...) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		if name == "notes.txt" || name == "store/obj/x" {
			none(name)
		} else if err := Check(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheckOwner: a home belongs to the owner of its identity, or else of its directory.
func TestCheckOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testkit.Missing(t, "root: homes of other users are not tested")
	}
	dir := t.TempDir()
	key := filepath.Join(dir, KeyFile)
	expect := func(when string, want status.Outcome) {
		t.Helper()
		if err := CheckOwner(dir); status.Of(err) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	expect("mine", status.OK)
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	expect("an empty directory of another", status.Forbidden)
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("my identity in it", status.OK)
	if err := os.Chown(key, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	expect("the identity of another", status.Forbidden)
	// sudo keeps no ALLIUM_HOME, so the command that the message shows names the home.
	if err, want := CheckOwner(dir), "sudo -u '#12345' allium --home "+dir+" "; !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not show %q", err, want)
	}
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	expect("in a directory of mine", status.Forbidden)
}

// TestCheckNew: root makes no home in a directory of another user.
func TestCheckNew(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testkit.Missing(t, "root: directories of other users are not tested")
	}
	parent := t.TempDir()
	for _, c := range []struct {
		uid  int
		mode os.FileMode
		want status.Outcome
	}{
		{0, 0o755, status.OK}, {12345, 0o755, status.Forbidden},
		{12345, 0o777 | os.ModeSticky, status.OK},
	} {
		if err := errors.Join(os.Chown(parent, c.uid, c.uid), os.Chmod(parent, c.mode)); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"home", "a/b/home"} {
			if err := CheckNew(filepath.Join(parent, dir)); status.Of(err) != c.want {
				t.Errorf("%s below %v of user %d: %v", dir, c.mode, c.uid, err)
			}
		}
	}
}
