package store_test

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestUploadFaults lets the disk fail in an append in the middle and in the last
// one: the outcome is typed, what was acknowledged stays, and the upload ends
// well once the disk is, also after a restart.
func TestUploadFaults(t *testing.T) {
	t.Parallel()
	write := []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt}
	syncs := []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}
	for _, test := range []struct {
		name  string
		err   error
		kinds []errorfs.OpKind
		path  string
		last  bool // only the end meets it
		want  status.Outcome
	}{
		{"full", syscall.ENOSPC, write, "/part/", false, status.NoSpace},
		{"write", syscall.EIO, write, "/part/", false, status.NotReady},
		{"outboard", syscall.ENOSPC, write, ".ob", false, status.NoSpace},
		{"sync", syscall.EIO, syncs, "/part/", false, status.NotReady},
		{"sync of the outboard", syscall.EIO, syncs, ".ob", true, status.NotReady},
		{"rename", syscall.EIO, []errorfs.OpKind{errorfs.OpRename}, "/part/", true, status.NotReady},
		{"log", syscall.ENOSPC, write, "/seg/", true, status.NoSpace},
	} {
		for _, restart := range []bool{false, true} {
			name := test.name
			if restart {
				name += ", restart"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := &fault{err: test.err, kinds: test.kinds, path: test.path}
				s, stop, disk, kept := faulty(t, f)
				p := storetest.Bytes(904, 30*group+9)
				at := len(p) / 3
				u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p)), Expect: b3.Sum(p), Pin: true})
				storetest.Append(t, s, u, p, 0, at)
				for i, to := range []int{2 * len(p) / 3, len(p)} {
					if i == 0 && test.last {
						storetest.Append(t, s, u, p, at, to)
						at = to
						continue
					}
					f.on.Store(true)
					now, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, int64(at),
						bytes.NewReader(p[at:to]))
					f.on.Store(false)
					storetest.Want(t, err, test.want)
					if now.Offset < int64(at) || !test.last && now.Offset != int64(at) || !now.Root.IsZero() {
						t.Fatalf("after a fault: %+v, want %d", now, at)
					}
					at = int(now.Offset)
					_, err = s.Stat(t.Context(), b3.Sum(p))
					storetest.Want(t, err, status.NotFound)
					if !restart {
						continue
					}
					if err := stop(); err != nil {
						t.Fatal(err)
					}
					s, stop = storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, f)})
				}
				if f.hits.Load() == 0 {
					t.Fatal("the fault was not met")
				}
				storetest.WantUploads(t, s, 1, at)
				storetest.Append(t, s, u, p, at, len(p))
				storetest.Holds(t, s, p)
				for _, k := range kept {
					storetest.Holds(t, s, k)
				}
				storetest.WantUploads(t, s, 0, 0)
				if err := tidy(disk, s); err != nil {
					t.Error(err)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestUploadIndexFault: an upload needs nothing of an index that cannot be
// synced, and the next process has what was acknowledged. Like TestIndexFailure
// it is for a process of its own.
func TestUploadIndexFault(t *testing.T) {
	t.Parallel()
	if os.Getenv(failingIndex) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUploadIndexFault$")
		child.Env = append(os.Environ(), failingIndex+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	f := &fault{err: syscall.EIO, kinds: []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData,
		errorfs.OpFileSyncTo}, path: "/index/"}
	disk := vfs.NewCrashableMem()
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, f)})
	p := storetest.Bytes(905, 5*group)
	u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
	storetest.Append(t, s, u, p, 0, group)
	f.on.Store(true)
	now, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, group, bytes.NewReader(p[group:3*group]))
	if err != nil || now.Offset != 3*group {
		t.Errorf("%+v, %v", now, err)
	}
	storetest.WantUploads(t, s, 1, 3*group)
	if err := stop(); err == nil {
		t.Error("the index failed, and nobody says so")
	}
	// The database is abandoned, with its lock.
	s, _ = storetest.Start(t, tiny(), store.Deps{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	if now, err := s.Uploads().Get(t.Context(), u.ID); err != nil || now.Offset != 3*group {
		t.Fatalf("%+v, %v", now, err)
	} else {
		storetest.Append(t, s, u, p, int(now.Offset), len(p))
	}
	storetest.Holds(t, s, p)
}

// TestUploadReserve: where the disk is too full for more, what is here can still
// become an object.
func TestUploadReserve(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: disk})
	p := storetest.Bytes(906, 5*group)
	u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
	storetest.Append(t, s, u, p, 0, group)
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 64<<20 + 100, TotalBytes: 1 << 30})
	_, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, group, bytes.NewReader(p[group:]))
	storetest.Want(t, err, status.NoSpace)
	_, err = s.Uploads().New(t.Context(), resumable.Capability{}, meta.UploadOptions{Length: 1 << 20})
	storetest.Want(t, err, status.NoSpace)
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 30})
	storetest.Append(t, s, u, p, group, len(p))
	storetest.Holds(t, s, p)
}
