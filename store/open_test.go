package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/admission"
	"allium/store/disk"
	"allium/store/meta"
	"allium/store/storetest"
)

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	var all [][]byte
	for round := range 4 {
		s, stop := storetest.Start(t, embedded(dir), store.Deps{})
		for _, p := range all {
			storetest.Holds(t, s, p)
		}
		if got := s.Stats().Objects; got != int64(len(all)) {
			t.Fatalf("round %d: %d objects, want %d", round, got, len(all))
		}
		for i := range 3 {
			p := storetest.Bytes(uint64(10*round+i), 1000+i*b3.GroupSize)
			root := storetest.Put(t, s, p)
			if err := s.Pin(t.Context(), root, store.PinOptions{Label: "r"}); err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	storetest.Want(t, s.Delete(t.Context(), b3.Sum(all[0])), status.Conflict)
	segs, err := os.ReadDir(filepath.Join(dir, "seg"))
	if err != nil || len(segs) != 1 {
		t.Errorf("an orderly close costs a segment: %v, %v", segs, err)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       status.Outcome
		cause      error
	}{
		{"newer", "allium store\nformat 5\n", status.Unsupported, disk.ErrVersion},
		{"much newer", "allium store\nformat 4000000000\n", status.Unsupported, disk.ErrVersion},
		{"zero", "allium store\nformat 0\n", status.Corrupt, nil},
		{"not a number", "allium store\nformat one\n", status.Corrupt, nil},
		{"sign", "allium store\nformat +1\n", status.Corrupt, nil},
		{"no end", "allium store\nformat 1", status.Corrupt, nil},
		{"more", "allium store\nformat 1\n\n", status.Corrupt, nil},
		{"empty", "", status.Corrupt, nil},
		{"else", "7767517\n", status.Corrupt, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "FORMAT"), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := storetest.Try(t, embedded(dir), store.Deps{})
			storetest.Want(t, err, test.want)
			if test.cause != nil && (!errors.Is(err, test.cause) || !strings.Contains(err.Error(), dir)) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestForeignDirectory: nothing is created in a directory that is not ours. What
// a store lost of what the log tells is made again.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  status.Outcome
	}{
		{"other files", func(t *testing.T, dir string) {
			for _, name := range []string{"FORMAT", "LOCK", "seg", "obj", "index", "part", "tmp"} {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, status.Conflict},
		{"FORMAT lost", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "FORMAT")); err != nil {
				t.Fatal(err)
			}
		}, status.OK},
		{"index lost", func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
				t.Fatal(err)
			}
		}, status.OK},
		{"index emptied", func(t *testing.T, dir string) {
			names, err := filepath.Glob(filepath.Join(dir, "index", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}, status.OK},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, stop := storetest.Start(t, embedded(dir), store.Deps{})
			large := storetest.Put(t, s, storetest.Bytes(1, 2*b3.GroupSize))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			test.spoil(t, dir)
			before := files(t, vfs.Default, dir)
			again, _, err := storetest.Try(t, embedded(dir), store.Deps{})
			storetest.Want(t, err, test.want)
			if test.want == status.OK {
				if err := again.Verify(t.Context(), large); err != nil {
					t.Error(err)
				}
				if d := again.Damage(); len(d) != 1 || d[0].State != meta.DamageMended {
					t.Errorf("the damage is %+v", d)
				}
			} else if after := files(t, vfs.Default, dir); len(after) != len(before) {
				t.Errorf("before %v, after %v", before, after)
			}
		})
	}
}

// lockedDir is set for the child of TestLock: the store it tries to open.
const lockedDir = "ALLIUM_LOCKED_DIR"

func TestLock(t *testing.T) {
	if dir := os.Getenv(lockedDir); dir != "" {
		_, _, err := storetest.Try(t, embedded(dir), store.Deps{})
		if !errors.Is(err, disk.ErrLocked) || status.Of(err) != status.Busy || !strings.Contains(err.Error(), dir) {
			t.Errorf("open says %v", err)
		}
		return
	}
	t.Parallel()
	dir := t.TempDir()
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	_, _, err := storetest.Try(t, embedded(dir), store.Deps{})
	if !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a second store of the same process: %v", err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLock$")
	child.Env = append(os.Environ(), lockedDir+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("another process: %v\n%s", err, out)
	}
	storetest.Put(t, s, []byte("the first one goes on"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	storetest.Start(t, embedded(dir), store.Deps{})
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	s, err := store.New(embedded(t.TempDir()), store.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"put":    func() error { _, err := s.PutBytes(t.Context(), []byte("x"), store.PutOptions{}); return err },
		"stream": func() error { _, err := s.Put(t.Context(), bytes.NewReader(largePut), store.PutOptions{}); return err },
		"open":   func() error { _, err := s.Open(t.Context(), b3.Root{}); return err },
		"stat":   func() error { _, err := s.Stat(t.Context(), b3.Root{}); return err },
		"has":    func() error { _, err := s.Has(t.Context(), nil); return err },
		"flush":  func() error { return s.Flush(t.Context()) },
		"delete": func() error { return s.Delete(t.Context(), b3.Root{}) },
		"pin":    func() error { return s.Pin(t.Context(), b3.Root{}, store.PinOptions{}) },
		"unpin":  func() error { return s.Unpin(t.Context(), b3.Root{}, "") },
		"pinned": func() error { _, _, err := s.Pinned(t.Context(), b3.Root{}); return err },
		"verify": func() error { return s.Verify(t.Context(), b3.Root{}) },
		"ingest": func() error { _, err := s.Ingest(t.Context(), b3.Root{}, 1); return err },
		"large":  func() error { _, err := s.Ingest(t.Context(), b3.Root{}, 1<<20); return err },
		"list": func() error {
			for _, err := range s.List(t.Context()) {
				return err
			}
			return nil
		},
		"pins": func() error {
			for _, err := range s.Pins(t.Context()) {
				return err
			}
			return nil
		},
	}
	all := func(want error) {
		t.Helper()
		for name, call := range calls {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s says %v, want %v", name, err, want)
			}
		}
	}
	all(admission.ErrNotReady)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	root := storetest.Put(t, s, largePut)
	o, err := s.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	slow := make(chan error, 1)
	blocked := &blockedReader{at: make(chan struct{}), release: make(chan struct{})}
	go func() { _, err := s.Put(t.Context(), blocked, store.PutOptions{}); slow <- err }()
	<-blocked.at
	in, err := s.Ingest(t.Context(), b3.Root{7}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { waits <- in.Wait(t.Context(), 0) }()

	cancel()
	if err := <-ended; err != nil { // neither the slow put nor the ingest hold it up
		t.Fatal(err)
	}
	all(meta.ErrDraining)
	close(blocked.release)
	if err := <-slow; !errors.Is(err, meta.ErrDraining) {
		t.Errorf("the slow put says %v", err)
	}
	if err := <-waits; !errors.Is(err, meta.ErrDraining) {
		t.Errorf("the wait says %v", err)
	}
	in.Abort(nil)
	o.Close()
	if err := s.Run(t.Context(), func() {}); err == nil {
		t.Error("a store runs twice")
	}
	if st := s.Stats(); st.Objects != 1 {
		t.Errorf("stats say %+v", st)
	}
}

// blockedReader gives a lot, then waits.
type blockedReader struct {
	n           int
	once        sync.Once
	at, release chan struct{}
}

func (r *blockedReader) Read(p []byte) (int, error) {
	if r.n > 1<<20 {
		r.once.Do(func() { close(r.at) })
		<-r.release
	}
	r.n += len(p)
	return len(p), nil
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := embedded("/somewhere")
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for key, spoil := range map[string]func(*store.Config){
		"backend":       func(c *store.Config) { c.Backend = "floppy" },
		"dir":           func(c *store.Config) { c.Dir = "" },
		"memory_bytes":  func(c *store.Config) { c.MemoryBytes = 0 },
		"reserve_bytes": func(c *store.Config) { c.ReserveBytes = -1 },
		"index_cache":   func(c *store.Config) { c.IndexCache = 1 },
		"gc_duty":       func(c *store.Config) { c.GCDuty = 0 },
		"puts":          func(c *store.Config) { c.Puts = 0 },
		"uploads":       func(c *store.Config) { c.Uploads = 0 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := store.New(cfg, store.Deps{}); err == nil || !strings.Contains(err.Error(), "store."+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestBounds: what waits is bounded, and the bounds are in the registry.
func TestBounds(t *testing.T) {
	t.Parallel()
	registry := limits.NewRegistry(nil)
	cfg := tiny()
	cfg.Puts, cfg.PutsWait, cfg.Ingests, cfg.IngestsWait = 1, 0, 1, 0
	s, _ := storetest.Start(t, cfg, store.Deps{Env: env.Env{Limits: registry}, FS: vfs.NewMem()})
	names := map[string]bool{}
	for _, l := range registry.Snapshot() {
		names[l.Name] = true
	}
	if !names["store.puts"] || !names["store.ingests"] || !names["store.commit"] {
		t.Errorf("the registry has %v", names)
	}
	in, err := s.Ingest(t.Context(), b3.Root{1}, 10)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Ingest(t.Context(), b3.Root{2}, 10)
	storetest.Want(t, err, status.Busy)
	in.Abort(nil)
	in, err = s.Ingest(t.Context(), b3.Root{2}, 10)
	if err != nil {
		t.Fatal(err)
	}
	in.Abort(nil)
	slow := make(chan error, 1)
	blocked := &blockedReader{at: make(chan struct{}), release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, err := s.Put(ctx, blocked, store.PutOptions{}); slow <- err }()
	<-blocked.at
	_, err = s.Put(t.Context(), bytes.NewReader(smallPut), store.PutOptions{})
	storetest.Want(t, err, status.Busy)
	cancel()
	close(blocked.release)
	storetest.Want(t, <-slow, status.Canceled)
	// A full memory backend says so when it is full of what is pinned, and takes
	// more once something is deleted.
	mem := store.DefaultConfig()
	mem.Backend, mem.MemoryBytes = store.BackendMemory, 10*b3.GroupSize
	s, _ = storetest.Start(t, mem, store.Deps{})
	root := storetest.Put(t, s, largePut)
	if err := s.Pin(t.Context(), root, store.PinOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err = s.PutBytes(t.Context(), storetest.Bytes(5, 6*b3.GroupSize), store.PutOptions{})
		storetest.Want(t, err, status.NoSpace)
	}
	if err := errors.Join(s.Unpin(t.Context(), root, ""), s.Delete(t.Context(), root)); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, s, storetest.Bytes(5, 6*b3.GroupSize))
}

// failingIndex is set for the child of TestIndexFailure.
const failingIndex = "ALLIUM_FAILING_INDEX"

// TestIndexFailure: when the index's log fails, the database below cannot go
// on. Reads do, writes are refused, nothing hangs, and a restart finds what was
// acknowledged. The database is abandoned with its goroutines, so this is for a
// process of its own.
func TestIndexFailure(t *testing.T) {
	t.Parallel()
	if os.Getenv(failingIndex) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIndexFailure$")
		child.Env = append(os.Environ(), failingIndex+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, kinds := range [][]errorfs.OpKind{{errorfs.OpFileWrite},
		{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}} {
		f := &fault{err: syscall.EIO, kinds: kinds, path: "/index"}
		s, stop, disk, kept := faulty(t, f)
		f.on.Store(true)
		var err error
		for i := 0; err == nil && i < 2000; i++ { // it is synced every 64 MiB of log
			_, err = s.PutBytes(t.Context(), storetest.Bytes(uint64(i), b3.GroupSize), store.PutOptions{})
		}
		storetest.Want(t, err, status.NotReady)
		_, err = s.PutBytes(t.Context(), smallPut, store.PutOptions{})
		storetest.Want(t, err, status.NotReady)
		storetest.Want(t, s.Pin(t.Context(), b3.Sum(kept[0]), store.PinOptions{}), status.NotReady)
		storetest.Want(t, s.Delete(t.Context(), b3.Sum(kept[1])), status.NotReady)
		if s.Stats().WriteErr == nil {
			t.Error("the stats say all is well")
		}
		for _, p := range kept {
			storetest.Holds(t, s, p)
		}
		if err := stop(); err == nil {
			t.Error("stop says all is well")
		}
		f.on.Store(false)
		// The abandoned database keeps its own lock, as it would until the
		// process ends: look at a copy.
		copied := vfs.NewMem()
		if _, err := vfs.Clone(disk, copied, "/store", "/store"); err != nil {
			t.Fatal(err)
		}
		s, _ = storetest.Start(t, tiny(), store.Deps{FS: copied})
		for _, p := range kept {
			storetest.Holds(t, s, p)
		}
	}
}
