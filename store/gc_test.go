package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
	"allium/store/storetest"
)

// tree stores a directory of files and returns its address.
func tree(t testing.TB, s *store.Store, files map[string]b3.Root, dirs map[string]b3.Root) b3.Root {
	t.Helper()
	b := manifest.NewBuilder(func(ctx context.Context, p []byte) (b3.Root, error) {
		info, err := s.PutBytes(ctx, p, store.PutOptions{})
		return info.Root, err
	})
	var names []string
	for name := range files {
		names = append(names, name)
	}
	for name := range dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e := manifest.Entry{Name: name, Root: files[name]}
		if root, ok := dirs[name]; ok {
			e.Kind, e.Root = manifest.Directory, root
		}
		info, err := s.Stat(t.Context(), e.Root)
		if err == nil {
			e.Size = info.Size
		} else {
			e.Size = 100 // of what is not here
		}
		if err := b.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, _, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// flipAfter changes the byte after the first mark in the only file of dir that
// has one.
func flipAfter(t testing.TB, dir, mark string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(p, []byte(mark)); i >= 0 {
			p[i+len(mark)] ^= 1
			if err := os.WriteFile(name, p, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no file in %s has %q", dir, mark)
}

func gcAll(t testing.TB, s *store.Store) gc.Report {
	t.Helper()
	r, err := s.Collector().Run(t.Context(), gc.Options{All: true, Fast: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantHas(t testing.TB, s *store.Store, what string, root b3.Root, want bool) {
	t.Helper()
	has, err := s.Has(t.Context(), []b3.Root{root})
	if err != nil {
		t.Fatal(err)
	}
	if got := has[0] == b3.Complete; got != want {
		t.Errorf("%s is here: %t, want %t", what, got, want)
	}
}

// backends runs a test on both.
func backends(t *testing.T, run func(t *testing.T, cfg store.Config)) {
	for _, kind := range []string{store.BackendEmbedded, store.BackendMemory} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cfg := store.DefaultConfig()
			cfg.Backend = kind
			cfg.Dir = t.TempDir()
			run(t, cfg)
		})
	}
}

func TestGCKeepsWhatIsHeld(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, cfg store.Config) {
		s, _ := storetest.Start(t, cfg, store.Deps{})
		put := func(seed uint64, n int) b3.Root { return storetest.Put(t, s, storetest.Bytes(seed, n)) }
		below, deep := put(1, 3000), put(2, 3*b3.GroupSize)
		inner := tree(t, s, map[string]b3.Root{"deep": deep}, nil)
		top := tree(t, s, map[string]b3.Root{"below": below}, map[string]b3.Root{"inner": inner, "missing": {9}})
		pinned, leased, open, lone, loneBig := put(3, 10), put(4, 10), put(5, 2*b3.GroupSize), put(6, 0),
			put(7, 2*b3.GroupSize)
		directOnly := put(8, 77)
		direct := tree(t, s, map[string]b3.Root{"x": directOnly}, nil)
		for root, recursive := range map[b3.Root]bool{top: true, pinned: false, direct: false} {
			if err := s.Pin(t.Context(), root, store.PinOptions{Recursive: recursive, Label: "l"}); err != nil {
				t.Fatal(err)
			}
		}
		release := s.Lease(leased)
		o, err := s.Open(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := s.Collector().Run(t.Context(), gc.Options{All: true, Dry: true})
		if err != nil {
			t.Fatal(err)
		}
		var told []b3.Root
		run, err := s.Collector().Run(t.Context(), gc.Options{All: true,
			Removal: func(o gc.Object) bool { told = append(told, o.Root); return true }})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(plan.Classes) != fmt.Sprint(run.Classes) {
			t.Errorf("the plan was %v, the run did %v", plan.Classes, run.Classes)
		}
		if n := run.Classes[gc.Removed]; n.Objects != 3 || len(told) != 3 {
			t.Errorf("%d objects were removed, %d told, want 3: %v", n.Objects, len(told), run.Classes)
		}
		for what, want := range map[string]struct {
			root b3.Root
			here bool
		}{
			"top": {top, true}, "below": {below, true}, "inner": {inner, true},
			"deep": {deep, true}, "pinned": {pinned, true},
			"leased": {leased, true}, "open": {open, true}, "direct": {direct, true},
			"what is below a direct pin": {directOnly, false}, "lone": {lone, false}, "large lone": {loneBig, false},
		} {
			wantHas(t, s, what, want.root, want.here)
		}
		release()
		o.Close()
		if n := gcAll(t, s).Classes[gc.Removed]; n.Objects != 2 {
			t.Errorf("%d objects were removed after their leases ended, want 2", n.Objects)
		}
		if err := s.Unpin(t.Context(), top, "l"); err != nil {
			t.Fatal(err)
		}
		if n := gcAll(t, s).Classes[gc.Removed]; n.Objects != 4 {
			t.Errorf("%d objects were removed after the pin, want 4", n.Objects)
		}
		if st := s.Stats(); st.Objects != 2 {
			t.Errorf("%d objects are left, want the two that are pinned", st.Objects)
		}
	})
}

func TestGCHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := store.DefaultConfig()
		cfg.Backend = store.BackendMemory
		s, stop := storetest.Start(t, cfg, store.Deps{})
		defer stop()
		before := storetest.Put(t, s, []byte("before"))
		found := storetest.Put(t, s, []byte("found"))
		kept := storetest.Put(t, s, []byte("kept"))
		opened := storetest.Put(t, s, []byte("opened"))
		time.Sleep(5 * time.Minute) // less than the interval at which uses are noted otherwise
		release := s.HoldGC()
		storetest.Put(t, s, []byte("found"))
		if has, err := s.Touch(t.Context(), []b3.Root{kept, {1}}); err != nil || has[0] != b3.Complete ||
			has[1] != b3.Absent {
			t.Fatal(has, err)
		}
		storetest.Holds(t, s, []byte("opened"))
		fresh := storetest.Put(t, s, []byte("new"))
		time.Sleep(3 * time.Minute) // the uses are written down
		late := s.HoldGC()
		r := gcAll(t, s)
		if n := r.Classes[gc.Held].Objects; n != 4 {
			t.Errorf("%d objects are held, want 4: %v", n, r.Classes)
		}
		wantHas(t, s, "before", before, false)
		for _, root := range []b3.Root{found, kept, opened, fresh} {
			wantHas(t, s, "held", root, true)
		}
		release()
		release()
		if n := gcAll(t, s).Classes[gc.Removed].Objects; n != 4 {
			t.Errorf("%d objects were removed after the hold, want 4", n)
		}
		late()
	})
}

// TestGCEviction: the least recently used go first, and no more of them than
// the low-water mark asks for.
func TestGCEviction(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name               string
		maxBytes, maxCount int64
	}{{"bytes", 100 * 1000, 0}, {"objects", 0, 100}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := store.DefaultConfig()
				cfg.Backend, cfg.LowWater = store.BackendMemory, 0.5
				cfg.MaxBytes, cfg.MaxObjects = limits.Bytes(test.maxBytes), test.maxCount
				s, _ := storetest.Start(t, cfg, store.Deps{})
				var roots []b3.Root
				for i := range 70 {
					roots = append(roots, storetest.Put(t, s, storetest.Bytes(uint64(i), 1000)))
					time.Sleep(15 * time.Minute)
				}
				for _, i := range []int{0, 1, 2} { // used again
					storetest.Holds(t, s, storetest.Bytes(uint64(i), 1000))
				}
				if err := s.Pin(t.Context(), roots[3], store.PinOptions{}); err != nil {
					t.Fatal(err)
				}
				plan, err := s.Collector().Run(t.Context(), gc.Options{Dry: true})
				if err != nil {
					t.Fatal(err)
				}
				run, err := s.Collector().Run(t.Context(), gc.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(plan.Classes) != fmt.Sprint(run.Classes) {
					t.Errorf("the plan was %v, the run did %v", plan.Classes, run.Classes)
				}
				if n := s.Stats().Objects; n != 50 {
					t.Errorf("%d objects are left, want 50: %v", n, run.Classes)
				}
				for i, root := range roots {
					wantHas(t, s, fmt.Sprint("object ", i), root, i < 4 || i >= 24)
				}
			})
		})
	}
}

// TestGCDamagedDirectory: what a damaged directory names is unknown.
func TestGCDamagedDirectory(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, stop := storetest.Start(t, cfg, store.Deps{})
	file := storetest.Put(t, s, []byte("a file"))
	inner := tree(t, s, map[string]b3.Root{"file": file}, nil)
	top := tree(t, s, nil, map[string]b3.Root{"inner": inner})
	lone := storetest.Put(t, s, []byte("lone"))
	if err := s.Pin(t.Context(), top, store.PinOptions{Recursive: true, Label: "site"}); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	flipAfter(t, filepath.Join(cfg.Dir, "seg"), manifest.Magic) // of inner, which was put first
	s, _ = storetest.Start(t, cfg, store.Deps{})
	for _, all := range []bool{true, false} {
		for _, dry := range []bool{true, false} {
			r, err := s.Collector().Run(t.Context(), gc.Options{All: all, Dry: dry})
			storetest.Want(t, err, status.Conflict)
			if len(r.Damaged) != 1 || r.Damaged[0].Node != inner || r.Damaged[0].Path != "inner" ||
				r.Damaged[0].Pin.Label != "site" {
				t.Errorf("the damage is told as %+v", r.Damaged)
			}
			if n := r.Classes[gc.Removed].Objects; n != 0 {
				t.Errorf("%d objects are removed", n)
			}
		}
	}
	storetest.Want(t, s.Delete(t.Context(), lone), status.Conflict)
	wantHas(t, s, "lone", lone, true)
	// The same directory, put again, tells what it names.
	if again := tree(t, s, map[string]b3.Root{"file": file}, nil); again != inner {
		t.Fatal("another directory")
	}
	gcAll(t, s)
	wantHas(t, s, "file", file, true)
	wantHas(t, s, "lone", lone, false)
}
