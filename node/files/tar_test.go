package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"allium/gateway/api"
	"allium/node/homefiles"
	"allium/protocols/status"
)

// newTree writes a directory of n small files and a large one.
func newTree(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	for i := range n {
		d := filepath.Join(dir, fmt.Sprintf("d%02d", i/20))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		name, data := fmt.Sprintf("f%03d", i), bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 100+i)
		if err := os.WriteFile(filepath.Join(d, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	large := bytes.Repeat([]byte("large and larger"), 40_000)
	if err := os.WriteFile(filepath.Join(dir, "large"), large, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTarSaysWhatItsStreamSays: what the carrier of a tar has to say of its end,
// such as that it may not be larger, is what the sender is told, wherever in the
// tar that is.
func TestTarSaysWhatItsStreamSays(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	if err := WriteTar(&whole, DiskItems(newTree(t, 3))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		carrier error
		want    status.Outcome
	}{
		{status.Errorf(status.BodyCap, "the body is larger than 10 bytes"), status.BodyCap},
		{fmt.Errorf("body: %w", context.Canceled), status.Canceled},
		{io.ErrUnexpectedEOF, status.BadRequest},
		{io.ErrClosedPipe, status.BadRequest},
	} {
		inHeader, inBody := 0, 0
		for at := 0; at < whole.Len()-1024; at += 100 + whole.Len()/200 {
			stream := io.MultiReader(bytes.NewReader(whole.Bytes()[:at]), iotest.ErrReader(c.carrier))
			var got error
			for it, err := range TarItems(stream) {
				if got = err; err != nil {
					inHeader++
				} else if it.Body != nil {
					if _, got = io.Copy(io.Discard, it.Body); got != nil {
						inBody++
					}
				}
				if got != nil {
					break
				}
			}
			if status.Of(got) != c.want {
				t.Errorf("after %d of %d bytes, %v: got %v", at, whole.Len(), c.carrier, got)
			}
		}
		if inHeader == 0 || inBody == 0 {
			t.Errorf("%d in headers and %d in bodies", inHeader, inBody)
		}
	}
}

// TestCheckedTree: what Check listed is what Items finds without it, also where a
// directory is added more than once and under several names.
func TestCheckedTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"x/a", "x/sub/b", "x/sub/deep/c"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("x", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	paths := func(items Items) (got []string) {
		for it, err := range items {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, it.Path)
		}
		return got
	}
	for _, args := range [][]string{
		{"x"}, {"x", "x"}, {"x", "x/sub", "x/sub"}, {"x/sub", "x", "x"}, {"x", "link", "link"}, {"link", "x", "link"},
	} {
		var names []string
		for _, a := range args {
			names = append(names, filepath.Join(dir, a))
		}
		disk := NewDisk(names, api.RefuseBadEntries, homefiles.Own{})
		if _, err := disk.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := paths(DiskItems(names...))
		for range 2 {
			if got := paths(disk.Items()); !slices.Equal(got, want) {
				t.Errorf("%v: %v, want %v", args, got, want)
			}
		}
	}
}
