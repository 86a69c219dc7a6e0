package doctor_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/testkit"
	"allium/node/doctor"
	"allium/protocols/status"
)

// TestBundleOnFullDisk: a bundle for which a disk lacks the space leaves nothing there, and the one from before stays.
// The disk is a small file system in RAM.
func TestBundleOnFullDisk(t *testing.T) {
	t.Parallel()
	if !testkit.InNamespaces(t) {
		return
	}
	place := testkit.SmallDisk(t, "64k")
	file := filepath.Join(place, "report.tar.gz")
	text := func(size int) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat("x", size))
			return err
		}
	}
	if err := doctor.SaveBundle(file, false, text(100)); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{true, false} {
		name := file
		if !force {
			name += ".2"
		}
		if err := doctor.SaveBundle(name, force, text(256<<10)); status.Of(err) != status.NoSpace {
			t.Errorf("on a full disk, force %v: %v", force, err)
		}
	}
	list, err := os.ReadDir(place)
	if err != nil || len(list) != 1 {
		t.Errorf("the directory has %v, %v", list, err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 100 {
		t.Errorf("the bundle from before: %v, %v", info, err)
	}
}
