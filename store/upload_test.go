package store_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// TestUploadRestart: an upload goes on in the next process, whatever is behind
// the bytes that were acknowledged and whatever became of its outboard.
func TestUploadRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := embedded(dir)
	cfg.Quotas = []string{"up=4MiB"}
	p := storetest.Bytes(1, 20*group+77)
	small := storetest.Bytes(2, 1000)
	s, stop := storetest.Start(t, cfg, store.Deps{})
	u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p)), Expect: b3.Sum(p), Label: "up", Pin: true})
	v := storetest.Begin(t, s, meta.UploadOptions{Length: 1000})
	whole := storetest.Begin(t, s, meta.UploadOptions{Length: 10})
	whole = storetest.Append(t, s, whole, small[:10], 0, 10)
	storetest.Append(t, s, v, small, 0, 600)
	at := 0
	for _, damage := range []func(name string) error{
		func(name string) error { return os.Remove(name + ".ob") },
		func(name string) error { return os.WriteFile(name+".ob", make([]byte, 1000), 0o600) },
		func(name string) error { // as after a crash
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.Write(make([]byte, 5000))
				err = errors.Join(err, f.Close())
			}
			return err
		},
		func(string) error { return nil },
	} {
		storetest.Append(t, s, u, p, at, at+group+1000)
		storetest.Append(t, s, u, p, at+group+1000, at+4*group+999)
		at += 4*group + 999
		used := s.Collector().Space().Used
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if err := damage(path.Join(dir, "part", u.ID)); err != nil {
			t.Fatal(err)
		}
		reg := limits.NewRegistry(nil)
		s, stop = storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
		if now := s.Collector().Space().Used; now != used {
			t.Errorf("%+v is used after a restart, %+v was before", now, used)
		}
		if n := quotas(reg)[`"up"`]; n != int64(len(p)) {
			t.Errorf("%d bytes count against the quota, want %d", n, len(p))
		}
		if now, err := s.Uploads().Get(t.Context(), u.ID); err != nil || now.Offset != int64(at) ||
			now.UploadOptions != u.UploadOptions {
			t.Fatalf("after a restart: %+v, %v; want %d bytes of %+v", now, err, at, u)
		}
		if now, err := s.Uploads().Get(t.Context(), whole.ID); err != nil || now != whole {
			t.Fatalf("after a restart: %+v, %v; want %+v", now, err, whole)
		}
		storetest.WantUploads(t, s, 2, at+600)
	}
	storetest.Append(t, s, u, p, at, len(p))
	storetest.Append(t, s, v, small, 600, 1000)
	storetest.Holds(t, s, p)
	storetest.Holds(t, s, small)
	if pinned, why, err := s.Pinned(t.Context(), b3.Sum(p)); err != nil || !pinned {
		t.Errorf("%t, %q, %v", pinned, why, err)
	}
	storetest.WantUploads(t, s, 0, 0)
	names, err := os.ReadDir(path.Join(dir, "part"))
	for _, name := range names {
		if path.Ext(name.Name()) != ".up" { // notes of those that are whole
			t.Errorf("part/ holds %v, %v", names, err)
		}
	}
}

// TestUploadStray: bytes without a note, and an upload whose bytes are gone, are
// told at the next start, and nobody goes on with them.
func TestUploadStray(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := storetest.Bytes(1, 3*group)
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	var us [3]resumable.Info
	for i := range us {
		us[i] = storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
		storetest.Append(t, s, us[i], p, 0, 2*group)
	}
	name := func(i int) string { return path.Join(dir, "part", us[i].ID) }
	if err := os.Remove(name(0)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Uploads().Append(t.Context(), resumable.Capability{}, us[0].ID, 2*group, bytes.NewReader(p[2*group:]))
	storetest.Want(t, err, status.Gone)
	storetest.WantUploads(t, s, 2, 4*group)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	stray := path.Join(dir, "part", "00112233445566778899aabbccddeeff")
	for _, err := range []error{os.Truncate(name(1), 2*group-1), os.WriteFile(stray, p, 0o600),
		os.WriteFile(stray+".ob", p, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, _ = storetest.Start(t, embedded(dir), store.Deps{})
	storetest.WantUploads(t, s, 1, 2*group)
	for i, want := range []status.Outcome{status.NotFound, status.NotFound, status.OK} {
		_, err := s.Uploads().Get(t.Context(), us[i].ID)
		storetest.Want(t, err, want)
	}
	for name, want := range map[string]int{"part": 3, "quarantine": 5} {
		if names, err := os.ReadDir(path.Join(dir, name)); err != nil || len(names) != want {
			t.Errorf("%s/ holds %v, %v", name, names, err)
		}
	}
	if open, unknown := s.OpenDamage(); open != 3 || unknown != 0 {
		t.Errorf("the damage is %+v", s.Damage())
	}
	storetest.Append(t, s, us[2], p, 2*group, len(p))
	storetest.Holds(t, s, p)
}

// TestUploadRebuild: an upload outlives an index that is made anew.
func TestUploadRebuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := storetest.Bytes(1, 3*group)
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
	storetest.Append(t, s, u, p, 0, 2*group)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Rebuild(t.Context(), embedded(dir), store.Deps{}, nil); err != nil {
		t.Fatal(err)
	}
	s, _ = storetest.Start(t, embedded(dir), store.Deps{})
	storetest.WantUploads(t, s, 1, 2*group)
	storetest.Append(t, s, u, p, 2*group, len(p))
	storetest.Holds(t, s, p)
}

// TestUploadBounds: so many at a time, in the room and the quota that there are,
// all of which comes back.
func TestUploadBounds(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		cfg.Uploads, cfg.MaxBytes, cfg.Quotas = 3, 4<<20, []string{"a=1MiB/2"}
		reg := limits.NewRegistry(nil)
		s, stop := storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: reg}})
		defer stop()
		refused := func(o meta.UploadOptions, want status.Outcome) {
			t.Helper()
			before, quota := s.Collector().Space().Used, quotas(reg)[`"a"`]
			_, err := s.Uploads().New(t.Context(), resumable.Capability{}, o)
			storetest.Want(t, err, want)
			if now := s.Collector().Space().Used; now.Objects > before.Objects || quotas(reg)[`"a"`] != quota {
				t.Errorf("%+v is used after a refusal, %+v was", now, before)
			}
		}
		// A store that is full of what may go makes room for a large one.
		for i := range 100 {
			storetest.Put(t, s, storetest.Bytes(uint64(i), 60_000))
		}
		refused(meta.UploadOptions{Length: 5 << 20}, status.NoSpace)
		refused(meta.UploadOptions{Length: 1<<20 + 1, Label: "a"}, status.Quota)
		refused(meta.UploadOptions{Length: b3.MaxSize}, status.NoSpace)
		p := storetest.Bytes(1000, 3<<20)
		large := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
		storetest.Append(t, s, large, p, 0, 2<<20)
		refused(meta.UploadOptions{Length: 1 << 20}, status.NoSpace)
		one := storetest.Begin(t, s, meta.UploadOptions{Length: 100, Label: "a"})
		two := storetest.Begin(t, s, meta.UploadOptions{Length: 100, Label: "a"})
		refused(meta.UploadOptions{Length: 1}, status.Busy)
		if err := s.Uploads().Remove(t.Context(), two.ID); err != nil {
			t.Fatal(err)
		}
		// What was promised is kept, however full it gets beside it.
		for i := range 30 {
			_, _ = s.PutBytes(t.Context(), storetest.Bytes(uint64(2000+i), 60_000), store.PutOptions{})
		}
		storetest.Append(t, s, large, p, 2<<20, len(p))
		storetest.Holds(t, s, p)
		two = storetest.Begin(t, s, meta.UploadOptions{Length: 100, Label: "a"})
		refused(meta.UploadOptions{Length: 1, Label: "a"}, status.Quota)
		for _, u := range []resumable.Info{one, two} {
			storetest.Append(t, s, u, p[:100], 0, 100)
		}
		if n := quotas(reg)[`"a"`]; n != 0 {
			t.Errorf("%d bytes of what is not pinned count against the quota", n)
		}
		pinned := storetest.Begin(t, s, meta.UploadOptions{Length: 200, Label: "a", Pin: true})
		storetest.Append(t, s, pinned, p[:200], 0, 200)
		if n := quotas(reg)[`"a"`]; n != 200 {
			t.Errorf("%d bytes count against the quota, want 200", n)
		}
		storetest.WantUploads(t, s, 0, 0)
	})
}

// TestUploadExpires: an upload goes when nothing came for store.upload_ttl, and
// not before; one that is whole is known as long.
func TestUploadExpires(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{store.BackendEmbedded, store.BackendMemory} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := tiny()
				cfg.Backend, cfg.UploadTTL = kind, time.Hour
				disk := vfs.NewMem()
				s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
				defer stop()
				p := storetest.Bytes(1, 3*group)
				before := s.Collector().Space().Used
				idle := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
				fed := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
				whole := storetest.Begin(t, s, meta.UploadOptions{Length: 10})
				storetest.Append(t, s, idle, p, 0, 100)
				storetest.Append(t, s, whole, p[:10], 0, 10)
				for i := range 3 {
					time.Sleep(50 * time.Minute)
					storetest.Append(t, s, fed, p, i*1000, (i+1)*1000)
				}
				_, err := s.Uploads().Get(t.Context(), idle.ID)
				storetest.Want(t, err, status.Gone)
				_, err = s.Uploads().Get(t.Context(), whole.ID)
				storetest.Want(t, err, status.Gone)
				storetest.WantUploads(t, s, 1, 3000)
				if st := s.Stats().Uploads; st.Expired != 1 || st.Whole != 1 {
					t.Errorf("%+v", st)
				}
				time.Sleep(time.Hour)
				// Gone when it is due, however seldom the janitor looks.
				_, err = s.Uploads().Append(t.Context(), resumable.Capability{}, fed.ID, 3000,
					bytes.NewReader(p[3000:]))
				storetest.Want(t, err, status.Gone)
				time.Sleep(time.Minute)
				storetest.WantUploads(t, s, 0, 0)
				if used := s.Collector().Space().Used; used.Bytes != before.Bytes+10 {
					t.Errorf("%+v is used, %+v was", used, before)
				}
				if kind == store.BackendEmbedded {
					names, err := disk.List("/store/part")
					names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".gone") })
					if err != nil || len(names) != 0 {
						t.Errorf("part/ holds %v, %v", names, err)
					}
				}
			})
		})
	}
}

// TestUploadSlow: of bytes that come slowly most are durable before the append
// ends.
func TestUploadSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, stop := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
		defer stop()
		p := storetest.Bytes(1, 3*group)
		u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
		slow := readFunc(func(b []byte) (int, error) {
			time.Sleep(time.Second)
			return bytes.NewReader(p).Read(b[:min(len(b), 1000)])
		})
		r := io.MultiReader(io.LimitReader(slow, 60_000), iotest.ErrReader(errors.New("cut")))
		ended := make(chan resumable.Info, 1)
		go func() {
			now, _ := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, 0, r)
			ended <- now
		}()
		time.Sleep(30*time.Second + time.Millisecond)
		now, err := s.Uploads().Get(t.Context(), u.ID)
		if err != nil || now.Offset < 20_000 {
			t.Errorf("after 30 s of 1,000 bytes each: %+v, %v", now, err)
		}
		if now := <-ended; now.Offset != 60_000 {
			t.Errorf("after all: %+v", now)
		}
	})
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestUploadDrains: an append that the store's end meets keeps what it noted.
func TestUploadDrains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	p := storetest.Bytes(1, 6*group)
	u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
	storetest.Append(t, s, u, p, 0, 2*group)
	reached, open := make(chan struct{}), make(chan struct{})
	n := 0
	r := readFunc(func(b []byte) (int, error) {
		if n++; n == 2 {
			close(reached)
			<-open
		}
		return copy(b, p[2*group:2*group+1000]), nil
	})
	ended := make(chan error, 1)
	var now resumable.Info
	go func() {
		var err error
		now, err = s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, 2*group, r)
		ended <- err
	}()
	<-reached
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	close(open)
	storetest.Want(t, <-ended, status.Draining)
	_, err := s.Uploads().New(t.Context(), resumable.Capability{}, meta.UploadOptions{})
	storetest.Want(t, err, status.Draining)
	s, _ = storetest.Start(t, embedded(dir), store.Deps{})
	then, err := s.Uploads().Get(t.Context(), u.ID)
	if err != nil || then.Offset != now.Offset || then.Offset != 2*group {
		t.Errorf("%+v after a restart, %+v was told: %v", then, now, err)
	}
	storetest.Append(t, s, u, p, 2*group, len(p))
	storetest.Holds(t, s, p)
}

// TestUploadsForgotten: of many whole uploads the latest are known.
func TestUploadsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := store.DefaultConfig()
		cfg.Backend = store.BackendMemory
		s, stop := storetest.Start(t, cfg, store.Deps{})
		defer stop()
		var ids []string
		for range 1024 + 20 {
			u := storetest.Begin(t, s, meta.UploadOptions{Length: 1})
			storetest.Append(t, s, u, []byte("x"), 0, 1)
			ids = append(ids, u.ID)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		for i, id := range ids {
			_, err := s.Uploads().Get(t.Context(), id)
			if want := status.Of(err) == status.Gone; want != (i < 20) {
				t.Fatalf("upload %d: %v", i, err)
			}
		}
	})
}
