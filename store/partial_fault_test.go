package store_test

import (
	"os"
	"path"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestPartialFaults lets the disk fail while a download is written or noted:
// the outcome is typed, and what was noted before stays.
func TestPartialFaults(t *testing.T) {
	t.Parallel()
	write := []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt}
	syncs := []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}
	p := storetest.Bytes(903, 6*group)
	size := int64(len(p))
	for _, test := range []struct {
		name   string
		fault  *fault
		write  status.Outcome
		keeps  int64 // bytes that a restart finds
		commit status.Outcome
	}{
		{"full", &fault{err: syscall.ENOSPC, kinds: write, path: "/part/"}, status.NoSpace, 2 * group, status.OK},
		{"write", &fault{err: syscall.EIO, kinds: write, path: "/part/"}, status.NotReady, 2 * group, status.OK},
		{"sync", &fault{err: syscall.EIO, kinds: syncs, path: "/part/"}, status.OK, 2 * group, status.NotReady},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := test.fault
			s, stop, disk, kept := faulty(t, f)
			in, err := s.Ingest(t.Context(), b3.Sum(p), size)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeAll(in, append(groupsOf(t, p, 0, 1), groupsOf(t, p, 5, 6)...)); err != nil {
				t.Fatal(err)
			}
			in.Suspend()
			if in, err = s.Ingest(t.Context(), b3.Sum(p), size); err != nil {
				t.Fatal(err)
			}
			f.on.Store(true)
			storetest.Want(t, writeAll(in, groupsOf(t, p, 1, 5)), test.write)
			if test.write == status.OK {
				_, err = in.Commit(t.Context(), false)
				storetest.Want(t, err, test.commit)
			} else {
				in.Suspend()
			}
			if f.hits.Load() == 0 {
				t.Fatal("the fault was not met")
			}
			f.on.Store(false)
			if st := s.Stats(); st.PartialBytes != test.keeps || st.PartialObjects != 1 ||
				st.Ingests != 0 || st.Leases != 0 ||
				st.WriteErr != nil {
				t.Errorf("stats say %+v", st)
			}
			for _, k := range kept {
				storetest.Holds(t, s, k)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk})
			if held, err := readPart(t.Context(), s, p); err != nil || held != test.keeps {
				t.Errorf("%d bytes are left, %v", held, err)
			}
			if err := complete(t, s, p); err != nil {
				t.Fatal(err)
			}
			storetest.Holds(t, s, p)
		})
	}
}

// TestStrayParts: what nothing accounts for, and what is left of a download that
// lost a file, is put aside at the next start, and what a publication had moved
// comes back.
func TestStrayParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	var parts [][]byte
	for i := range 3 {
		p := storetest.Bytes(uint64(910+i), 3*group)
		in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(in, groupsOf(t, p, 1, 3)); err != nil {
			t.Fatal(err)
		}
		in.Suspend()
		parts = append(parts, p)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	name := func(i int, suffix string) string { return path.Join(dir, "part", b3.Sum(parts[i]).Hex()+suffix) }
	moved := b3.Sum(parts[1]).Hex()
	for _, err := range []error{
		os.Remove(name(0, ".ob")),
		os.Rename(name(1, ".ob"), path.Join(dir, "obj", moved[:2], moved+".ob")),
		os.WriteFile(path.Join(dir, "part", b3.Root{9}.Hex()), []byte("stray"), 0o600),
		os.WriteFile(path.Join(dir, "part", "other"), []byte("stray"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, _ = storetest.Start(t, embedded(dir), store.Deps{})
	if st := s.Stats(); st.PartialObjects != 2 || st.PartialBytes != 4*group {
		t.Errorf("stats say %+v", st)
	}
	for i, want := range []int64{0, 2 * group, 2 * group} {
		held, err := readPart(t.Context(), s, parts[i])
		if held != want || want > 0 && err != nil {
			t.Errorf("part %d: %d bytes, %v", i, held, err)
		}
	}
	for name, want := range map[string]int{"part": 6, "quarantine": 4} {
		names, err := os.ReadDir(path.Join(dir, name))
		if err != nil || len(names) != want {
			t.Errorf("%s/ holds %v, %v", name, names, err)
		}
	}
	if all := s.Damage(); len(all) != 3 {
		t.Errorf("the damage is %+v", all)
	}
	if open, _ := s.OpenDamage(); open != 0 {
		t.Errorf("%d are open; nothing that was promised is lost", open)
	}
	if u := s.Stats().Usage; u.QuarantineFiles != 4 || u.QuarantineBytes < 2*group {
		t.Errorf("usage is %+v", u)
	}
}
