package follow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestFullDisk: on a full disk the directory stays as it was, what was fetched makes room for others, and
// the update goes on once there is room. The disk is a small file system in RAM.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !testkit.InNamespaces(t) {
		return
	}
	place := testkit.SmallDisk(t, "256k")
	dir := filepath.Join(place, "dir")
	d, s := opens(t, dir, t.TempDir()), newSource()
	small := version{"a": "one", "b": strings.Repeat("b", 60<<10)}
	update1(t, d, s, s.add(t, small), Options{})

	write(t, filepath.Join(place, "other"), strings.Repeat("o", 100<<10))
	large := version{"a": "two", "b": strings.Repeat("c", 60<<10), "c": strings.Repeat("d", 60<<10)}
	key := s.add(t, large)
	for range 2 {
		_, err := d.Update(t.Context(), s, key, Options{MaxBytes: 1 << 20})
		if status.Of(err) != status.NoSpace {
			t.Fatalf("on a full disk: %v", err)
		}
		isOnDisk(t, dir, small)
	}
	if err := os.Remove(filepath.Join(place, "other")); err != nil {
		t.Fatal(err)
	}
	update1(t, d, s, key, Options{})
	isOnDisk(t, dir, large)
}
