package store_test

import (
	"bytes"
	"os"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// objFile is the name of an object's file below a store's directory.
func objFile(dir string, root b3.Root, suffix string) string {
	return path.Join(dir, "obj", root.Hex()[:2], root.Hex()+suffix)
}

// TestOrphans: after an unclean stop, files that no record names are not
// unlinked. What proves its name becomes an object, also without an outboard or
// with a wrong one; what does not is put aside; a put of the same bytes does not
// mind.
func TestOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	storetest.Put(t, s, storetest.Bytes(1, 3*group))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// The last close in order is forgotten, as if the machine had stopped.
	disk := vfs.NewMem()
	if _, err := vfs.Clone(vfs.Default, disk, dir, "/store"); err != nil {
		t.Fatal(err)
	}
	put := func(name string, p []byte) {
		t.Helper()
		write(t, disk, name, p)
	}
	whole, bare, wrong := storetest.Bytes(2, 4*group+5), storetest.Bytes(3, 2*group), storetest.Bytes(4, 3*group)
	again, alone, short := storetest.Bytes(5, 5*group), storetest.Bytes(6, 2*group), storetest.Bytes(7, 2*group)
	put(objFile("/store", b3.Sum(whole), ""), whole)
	put(objFile("/store", b3.Sum(whole), ".ob"), make([]byte, 256)) // not its outboard
	put(objFile("/store", b3.Sum(bare), ""), bare)
	put(objFile("/store", b3.Sum(wrong), ""), append(bytes.Clone(wrong[1:]), 0))
	put(objFile("/store", b3.Sum(wrong), ".ob"), make([]byte, 128))
	put(objFile("/store", b3.Sum(again), ""), again[:group])
	put(objFile("/store", b3.Sum(alone), ".ob"), make([]byte, 64))
	put(objFile("/store", b3.Sum(short), ""), nil)
	put("/store/obj/00/README", []byte("not ours"))
	store.ForgetClose(t, disk, "/store")

	reg := prometheus.NewRegistry()
	s, stop = storetest.Start(t, tiny(), store.Deps{Env: env.Env{Metrics: reg}, FS: disk})
	storetest.Put(t, s, again) // before, or after, its leftover was looked at
	<-s.Adopted()
	for _, p := range [][]byte{storetest.Bytes(1, 3*group), whole, bare, again} {
		storetest.Holds(t, s, p)
		if err := s.Verify(t.Context(), b3.Sum(p)); err != nil {
			t.Error(err)
		}
	}
	for _, p := range [][]byte{wrong, alone, short} {
		_, err := s.Open(t.Context(), b3.Sum(p))
		storetest.Want(t, err, status.NotFound)
	}
	if st := s.Stats(); st.Objects != 4 || st.Usage.QuarantineFiles < 4 || st.Usage.QuarantineFiles > 5 {
		t.Errorf("stats say %+v", st)
	}
	if n := summed(t, reg, "store_recovery_adopted_total"); n != 2 {
		t.Errorf("%v are counted as adopted", n)
	}
	if n := summed(t, reg, "store_recovery_quarantined_total"); n != float64(s.Stats().Usage.QuarantineFiles) {
		t.Errorf("%v are counted as set aside", n)
	}
	if open, _ := s.OpenDamage(); open != 0 || len(s.Damage()) < 2 {
		t.Errorf("%d are open of %+v", open, s.Damage())
	}
	if got := read(t, disk, "/store/quarantine/"+b3.Sum(wrong).Hex()+".1"); !bytes.Equal(got[:100], wrong[1:101]) {
		t.Error("quarantine/ holds other bytes")
	}
	if got := read(t, disk, "/store/obj/00/README"); string(got) != "not ours" {
		t.Errorf("a file that is not ours is %q", got)
	}
	if err := s.Delete(t.Context(), b3.Sum(bare)); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk})
	<-s.Adopted()
	if st := s.Stats(); st.Objects != 3 || st.Usage.QuarantineFiles < 4 {
		t.Errorf("after a restart stats say %+v", st)
	}
}

// TestRemovedStays: what was deleted does not come back by files that a crash
// left, while its key, its tombstone or neither is in the index.
func TestRemovedStays(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"started", "without its index", "rebuilt"} {
		dir := t.TempDir()
		s, stop := storetest.Start(t, embedded(dir), store.Deps{})
		p := storetest.Bytes(8, 3*group)
		root := storetest.Put(t, s, p)
		name := objFile(dir, root, "")
		copies := [2]string{path.Join(t.TempDir(), "data"), path.Join(t.TempDir(), "ob")}
		for i, suffix := range []string{"", ".ob"} {
			if err := os.Link(name+suffix, copies[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		// A crash before the directory was synced: the names are there again.
		disk := vfs.NewMem()
		if _, err := vfs.Clone(vfs.Default, disk, dir, "/store"); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for i, suffix := range []string{"", ".ob"} {
			if _, err := vfs.Clone(vfs.Default, disk, copies[i], objFile("/store", root, suffix)); err != nil {
				t.Fatal(err)
			}
		}
		switch how {
		case "without its index":
			if err := disk.RemoveAll("/store/index"); err != nil {
				t.Fatal(err)
			}
		case "rebuilt":
			if _, err := store.Rebuild(t.Context(), tiny(), store.Deps{FS: disk}, nil); err != nil {
				t.Fatal(err)
			}
		}
		s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk})
		<-s.Adopted()
		_, err := s.Open(t.Context(), root)
		storetest.Want(t, err, status.NotFound)
		if _, err := disk.Stat(objFile("/store", root, "")); !os.IsNotExist(err) {
			t.Errorf("%s: the file of a deleted object: %v", how, err)
		}
		if st := s.Stats(); st.Usage.QuarantineFiles != 0 {
			t.Errorf("stats say %+v", st)
		}
	}
}
