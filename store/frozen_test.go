package store_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// refusingFS takes no writes: each fails with err.
type refusingFS struct {
	vfs.FS
	err  error
	lock bool // a lock can be had, as its file is there
}

func (f refusingFS) refuse(name string) error {
	return &os.PathError{Op: "write", Path: name, Err: f.err}
}

func (f refusingFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, f.refuse(name)
}

func (f refusingFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, f.refuse(name)
}

func (f refusingFS) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, f.refuse(name)
}
func (f refusingFS) Link(_, name string) error                 { return f.refuse(name) }
func (f refusingFS) Remove(name string) error                  { return f.refuse(name) }
func (f refusingFS) RemoveAll(name string) error               { return f.refuse(name) }
func (f refusingFS) Rename(_, name string) error               { return f.refuse(name) }
func (f refusingFS) MkdirAll(name string, _ os.FileMode) error { return f.refuse(name) }
func (f refusingFS) Lock(name string) (io.Closer, error) {
	if f.lock {
		return f.FS.Lock(name)
	}
	return nil, f.refuse(name)
}

// TestReadOnlyDisk: a store on a disk that takes no writes is read, after every
// kind of stop, and stops in order; writes are refused, and nothing is changed.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		errno syscall.Errno
		want  status.Outcome
	}{
		{"read-only", syscall.EROFS, status.NotReady},
		{"full", syscall.ENOSPC, status.NoSpace},
	} {
		for _, clean := range []bool{true, false} {
			name := test.name + ", killed"
			if clean {
				name = test.name + ", stopped"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				disk := vfs.NewCrashableMem()
				s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
				var all [][]byte
				for i := range uint64(40) {
					all = append(all, storetest.Bytes(i, 60_000), storetest.Bytes(1000+i, 2*b3.GroupSize+int(i)))
				}
				for _, p := range all {
					storetest.Put(t, s, p)
				}
				gone := storetest.Put(t, s, storetest.Bytes(5000, 100))
				if err := s.Delete(t.Context(), gone); err != nil {
					t.Fatal(err)
				}
				pinned := b3.Sum(all[3])
				if err := s.Pin(t.Context(), pinned, store.PinOptions{Label: "kept"}); err != nil {
					t.Fatal(err)
				}
				var after *vfs.MemFS
				if clean {
					if err := stop(); err != nil {
						t.Fatal(err)
					}
					after = disk.CrashClone(vfs.CrashCloneCfg{})
				} else {
					after = disk.CrashClone(vfs.CrashCloneCfg{})
				}
				before := after.String()
				s, stop = storetest.Start(t, tiny(),
					store.Deps{FS: refusingFS{after, test.errno, test.errno == syscall.ENOSPC}})
				for _, p := range all {
					storetest.Holds(t, s, p)
				}
				if ok, _, err := s.Pinned(t.Context(), pinned); err != nil || !ok {
					t.Errorf("the pin is lost: %v", err)
				}
				_, err := s.Open(t.Context(), gone)
				storetest.Want(t, err, status.NotFound)
				for _, p := range [][]byte{smallPut, largePut} {
					_, err := s.Put(t.Context(), bytes.NewReader(p), store.PutOptions{})
					storetest.Want(t, err, test.want)
				}
				storetest.Want(t, s.Delete(t.Context(), b3.Sum(all[4])), test.want)
				_, err = s.Ingest(t.Context(), b3.Sum(largePut), int64(len(largePut)))
				storetest.Want(t, err, test.want)
				_, err = s.Uploads().New(t.Context(), resumable.Capability{}, meta.UploadOptions{Length: 10})
				if err == nil {
					t.Error("an upload was begun")
				}
				if err := s.Stats().WriteErr; status.Of(err) != test.want ||
					!strings.Contains(err.Error(), "restart the node") {
					t.Errorf("the gate would say %v", err)
				}
				if err := stop(); err != nil {
					t.Errorf("stop: %v", err)
				}
				if after.String() != before {
					t.Error("the disk was changed")
				}
				s, _ = storetest.Start(t, tiny(), store.Deps{FS: after})
				for _, p := range all {
					storetest.Holds(t, s, p)
				}
				storetest.Put(t, s, smallPut)
			})
		}
	}
}
