package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestMachineFaults: an error of the machine has one outcome whatever the store
// was doing, and is never taken for damage: nothing is marked, counted or told,
// and everything works when it is over. A disk that cannot read is damage of
// one object, and no verdict on its bytes.
func TestMachineFaults(t *testing.T) {
	t.Parallel()
	open, create := []errorfs.OpKind{errorfs.OpOpen}, []errorfs.OpKind{errorfs.OpCreate}
	reopen := []errorfs.OpKind{errorfs.OpOpen, errorfs.OpCreate, errorfs.OpLock}
	read := []errorfs.OpKind{errorfs.OpFileReadAt}
	write := []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileWriteAt}
	small, large := storetest.Bytes(1, 100), storetest.Bytes(2, 3*b3.GroupSize)
	get := func(p []byte) func(*store.Store) error {
		return func(s *store.Store) error {
			_, err := storetest.Get(t, s, b3.Sum(p))
			return err
		}
	}
	put := func(p []byte) func(*store.Store) error {
		return func(s *store.Store) error {
			_, err := s.Put(t.Context(), bytes.NewReader(p), store.PutOptions{})
			return err
		}
	}
	for _, op := range []struct {
		name  string
		kinds []errorfs.OpKind
		path  string
		do    func(*store.Store) error
		eio   status.Outcome
	}{
		{"open a segment", open, "/seg/", get(small), status.Corrupt},
		{"read a segment", read, "/seg/", get(small), status.Corrupt},
		{"open an object", open, "/obj/", get(large), status.Corrupt},
		{"read an object", read, "/obj/", get(large), status.Corrupt},
		{"open an outboard", open, ".ob", get(large), status.Corrupt},
		{"read an outboard", read, ".ob", get(large), status.Corrupt},
		{"create a file", create, "/tmp/", put(largePut), status.NotReady},
		{"write a file", write, "/tmp/", put(largePut), status.NotReady},
		{"write a segment", write, "/seg/", put(smallPut), status.NotReady},
		{"begin an upload", create, "/part/", func(s *store.Store) error {
			id, err := s.Uploads().New(t.Context(), resumable.Capability{}, meta.UploadOptions{Length: 10})
			if err == nil {
				_, err = s.Uploads().Append(t.Context(), resumable.Capability{}, id.ID, 0,
					bytes.NewReader(make([]byte, 10)))
			}
			return err
		}, status.NotReady},
		{"begin a download", create, "/tmp/", func(s *store.Store) error {
			in, err := s.Ingest(t.Context(), b3.Sum(largePut), int64(len(largePut)))
			if err == nil {
				in.Abort(nil)
			}
			return err
		}, status.NotReady},
		{"start", reopen, "/store", nil, status.Corrupt},
	} {
		for errno, want := range map[syscall.Errno]status.Outcome{
			syscall.EMFILE: status.Busy, syscall.ENFILE: status.Busy, syscall.ENOMEM: status.Busy,
			syscall.ENOSPC: status.NoSpace, syscall.EDQUOT: status.NoSpace,
			syscall.EACCES: status.NotReady, syscall.EPERM: status.NotReady, syscall.EROFS: status.NotReady,
			syscall.EIO: op.eio,
		} {
			if testing.Short() && errno != syscall.EIO && errno != syscall.ENOSPC {
				continue // the outcome differs, the goroutines do not
			}
			t.Run(fmt.Sprintf("%s/%s", op.name, errno), func(t *testing.T) {
				t.Parallel()
				f := &fault{err: errno, kinds: op.kinds, path: op.path}
				s, stop, disk, _ := faulty(t, f)
				for i := range uint64(12) { // the first segment is not the last, which stays open
					storetest.Put(t, s, storetest.Bytes(100+i, 60_000))
				}
				if err := stop(); err != nil { // so that no file is open
					t.Fatal(err)
				}
				cfg := tiny()
				cfg.HotBytes = 0
				told := 0
				reg := prometheus.NewRegistry()
				deps := store.Deps{Env: env.Env{Metrics: reg}, FS: errorfs.Wrap(disk,
					f), Damaged: func(b3.Root) { told++ }}
				s = nil
				var err error
				if op.do == nil {
					f.on.Store(true)
					_, _, err = storetest.Try(t, cfg, deps)
					reg = prometheus.NewRegistry()
					deps.Metrics = reg
				} else {
					s, _ = storetest.Start(t, cfg, deps)
					f.on.Store(true)
					err = op.do(s)
				}
				storetest.Want(t, err, want)
				if !errors.Is(err, errno) {
					t.Errorf("the cause is lost: %v", err)
				}
				if f.hits.Load() == 0 {
					t.Fatal("the fault was not met")
				}
				f.on.Store(false)
				if s == nil {
					s, _ = storetest.Start(t, cfg, deps)
				}
				if n := counted(t, reg, "integrity_fail_total"); n != 0 && errno != syscall.EIO {
					t.Errorf("%d objects are counted as damaged", n)
				}
				if st := s.Stats(); st.Corrupt != 0 || told != 0 || st.WriteErr != nil {
					t.Errorf("%d marked, %d told, writes: %v", st.Corrupt, told, st.WriteErr)
				}
				for _, p := range [][]byte{small, large} {
					storetest.Holds(t, s, p)
				}
				storetest.Put(t, s, smallPut)
				storetest.Put(t, s, largePut)
			})
		}
	}
}

// counted is the sum of a counter over its labels.
func counted(t *testing.T, reg *prometheus.Registry, name string) (n int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			n += int(m.GetCounter().GetValue())
		}
	}
	return n
}
