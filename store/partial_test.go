package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

const group = b3.GroupSize

// groupsOf are the items that a walk over groups [lo, hi) of p gives.
func groupsOf(t testing.TB, p []byte, lo, hi int64) []b3.Proved {
	t.Helper()
	return storetest.Items(t, p, int64(len(p)), b3.Range{Start: lo * group, End: min(hi*group, int64(len(p)))})
}

func writeAll(in *store.Ingest, items []b3.Proved) error {
	for _, item := range items {
		if err := in.Write(item); err != nil {
			return err
		}
	}
	return nil
}

// readPart reads every group of p that is here, and returns their bytes.
func readPart(ctx context.Context, s *store.Store, p []byte) (held int64, err error) {
	o, err := s.OpenPartial(ctx, b3.Sum(p))
	if err != nil {
		return 0, err
	}
	defer o.Close()
	size := int64(len(p))
	for g := range b3.Groups(size) {
		start, end := g*group, min((g+1)*group, size)
		if !o.Covers(start, end) {
			continue
		}
		got, err := o.Reader().ReadGroup(g, make([]byte, group))
		if err != nil {
			return held, fmt.Errorf("group %d: %w", g, o.Failed(err))
		}
		if !bytes.Equal(got, p[start:end]) {
			return held, fmt.Errorf("group %d holds other bytes", g)
		}
		held += end - start
	}
	return held, nil
}

// complete fetches what is missing of p, and commits.
func complete(t testing.TB, s *store.Store, p []byte) error {
	in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
	if err != nil {
		return err
	}
	groups := b3.Groups(int64(len(p)))
	for lo, hi := in.Missing(0, groups); lo < hi; lo, hi = in.Missing(0, groups) {
		if err := writeAll(in, groupsOf(t, p, lo, hi)); err != nil {
			in.Abort(err)
			return err
		}
	}
	_, err = in.Commit(t.Context(), false)
	return err
}

// TestPartialModel writes, suspends, reopens and crashes at random, and compares
// what is here with a set of groups.
func TestPartialModel(t *testing.T) {
	t.Parallel()
	p := storetest.Bytes(800, 23*group+77)
	root, size := b3.Sum(p), int64(len(p))
	groups := b3.Groups(size)
	items := make([][]b3.Proved, groups)
	for g := range groups {
		items[g] = groupsOf(t, p, g, g+1)
	}
	rapid.Check(t, func(rt *rapid.T) {
		disk := vfs.NewCrashableMem()
		s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
		defer func() { _ = stop() }()
		var in *store.Ingest
		here, saved := map[int64]bool{}, map[int64]bool{}
		restart := func() {
			var err error
			if s, stop, err = storetest.Try(t, tiny(), store.Deps{FS: disk}); err != nil {
				rt.Fatal(err)
			}
			in = nil
		}
		need := func() {
			if in != nil {
				return
			}
			var err error
			if in, err = s.Ingest(t.Context(), root, size); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				need()
				g := rapid.Int64Range(0, groups-1).Draw(rt, "group")
				if err := writeAll(in, items[g]); err != nil {
					rt.Fatal(err)
				}
				here[g] = true
			},
			"suspend": func(rt *rapid.T) {
				need()
				_, proved := in.Size()
				in.Suspend()
				in = nil
				if !proved {
					clear(here)
				}
				saved = maps.Clone(here)
			},
			"abort": func(rt *rapid.T) {
				need()
				in.Abort(nil)
				in = nil
				clear(here)
				clear(saved)
			},
			"reopen": func(rt *rapid.T) {
				if rapid.IntRange(0, 2).Draw(rt, "dice") > 0 {
					rt.Skip("opening a store is what costs")
				}
				proved := false
				if in != nil {
					_, proved = in.Size()
				}
				if err := stop(); err != nil {
					rt.Fatal(err)
				}
				if proved { // an orderly end notes everything
					saved = maps.Clone(here)
				}
				restart()
				here = maps.Clone(saved)
			},
			"crash": func(rt *rapid.T) {
				if rapid.IntRange(0, 2).Draw(rt, "dice") > 0 {
					rt.Skip("opening a store is what costs")
				}
				clone := disk.CrashClone(vfs.CrashCloneCfg{})
				_ = stop()
				disk = clone
				restart()
				here = maps.Clone(saved)
			},
			"": func(rt *rapid.T) {
				if in == nil && len(here) == 0 {
					if _, err := s.Partials().Get(t.Context(), root); status.Of(err) != status.NotFound {
						rt.Fatalf("nothing is here, and partial says %v", err)
					}
					return
				}
				if in == nil {
					if held, err := readPart(t.Context(), s, p); err != nil || held != bytesOf(here, size) {
						rt.Fatalf("%d bytes are here, want %d: %v", held, bytesOf(here, size), err)
					}
					return
				}
				for g := range groups {
					if in.Has(g) != here[g] {
						rt.Fatalf("group %d is here: %t", g, in.Has(g))
					}
				}
				if in.Held() != bytesOf(here, size) || s.Stats().PartialBytes != in.Held() {
					rt.Fatalf("%d bytes are held, %+v", in.Held(), s.Stats())
				}
				for lo, hi := in.Missing(0, groups); lo < hi; lo, hi = in.Missing(hi, groups) {
					if lo > 0 && !here[lo-1] || hi < groups && !here[hi] {
						rt.Fatalf("[%d, %d) is no whole run", lo, hi)
					}
					for g := lo; g < hi; g++ {
						if here[g] {
							rt.Fatalf("group %d is called missing", g)
						}
					}
				}
			},
		})
	})
}

func bytesOf(groups map[int64]bool, size int64) (n int64) {
	for g := range groups {
		n += min(group, size-g*group)
	}
	return n
}

// TestPartialDamaged flips a byte of a group, and then of a parent, that are
// here: they are not served, and fetched again.
func TestPartialDamaged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		file string
		off  int64
	}{{"group", "", 2*group + 600}, {"parent", ".ob", 1*b3.ParentSize + 3}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, stop := storetest.Start(t, embedded(dir), store.Deps{})
			p := storetest.Bytes(900, 6*group)
			in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
			if err != nil {
				t.Fatal(err)
			}
			if err := writeAll(in, append(groupsOf(t, p, 1, 4), groupsOf(t, p, 5, 6)...)); err != nil {
				t.Fatal(err)
			}
			in.Suspend()
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			name := path.Join(dir, "part", b3.Sum(p).Hex()+test.file)
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 1)
			if _, err := f.ReadAt(b, test.off); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte{b[0] ^ 1}, test.off); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			s, _ = storetest.Start(t, embedded(dir), store.Deps{})
			o, err := s.OpenPartial(t.Context(), b3.Sum(p))
			if err != nil {
				t.Fatal(err)
			}
			_, err = o.Reader().ReadGroup(2, make([]byte, group))
			err = o.Failed(err)
			storetest.Want(t, err, status.Corrupt)
			var at *b3.GroupError
			if !errors.As(err, &at) || at.Group != 2 {
				t.Errorf("%v does not name the group", err)
			}
			if o.Covers(2*group, 3*group) || s.Stats().PartialBytes != 3*group {
				t.Errorf("it is still said to be here: %+v", s.Stats())
			}
			o.Close()
			if err := complete(t, s, p); err != nil {
				t.Fatal(err)
			}
			storetest.Holds(t, s, p)
		})
	}
}

// TestPartialConcurrent has writers of overlapping ranges, readers that follow,
// and others that come and go, and an end by Suspend and by Commit.
func TestPartialConcurrent(t *testing.T) {
	t.Parallel()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
	p := storetest.Bytes(901, 40*group+1)
	root, groups := b3.Sum(p), b3.Groups(40*group+1)
	for round := range 3 {
		in, err := s.Ingest(t.Context(), root, int64(len(p)))
		if err != nil {
			t.Fatal(err)
		}
		upTo := groups * int64(round+1) / 3
		var wg sync.WaitGroup
		for w := range int64(4) {
			wg.Go(func() {
				lo := upTo * w / 6
				if err := writeAll(in, append(groupsOf(t, p, groups-1, groups),
					groupsOf(t, p, lo, upTo)...)); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				o, err := in.Open()
				if err != nil {
					t.Error(err)
					return
				}
				defer o.Close()
				for g := range upTo {
					if err := in.Wait(t.Context(), g); err != nil {
						t.Error(err)
						return
					}
					got, err := o.Reader().ReadGroup(g, make([]byte, group))
					if err != nil || !bytes.Equal(got, p[g*group:min((g+1)*group, int64(len(p)))]) {
						t.Errorf("group %d: %v", g, err)
						return
					}
				}
			})
			wg.Go(func() {
				for range 20 {
					if _, err := readPart(t.Context(), s, p); err != nil && status.Of(err) != status.NotFound {
						t.Error(err)
					}
					if _, err := s.Partials().Get(t.Context(), root); err != nil && status.Of(err) != status.NotFound {
						t.Error(err)
					}
				}
			})
		}
		if round == 1 { // ends under the readers
			wg.Go(func() {
				if err := in.Wait(t.Context(), upTo-1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if round < 2 {
			in.Suspend()
			continue
		}
		if _, err := in.Commit(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Holds(t, s, p)
	if st := s.Stats(); st.PartialBytes != 0 || st.PartialObjects != 0 || st.Leases != 0 || st.Ingests != 0 {
		t.Errorf("stats say %+v", st)
	}
}

// TestCheckpointClock waits in virtual time: what arrived is noted when it is
// five seconds old, and only when its size is proved.
func TestCheckpointClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := store.DefaultConfig()
		cfg.Backend, cfg.MemoryBytes = store.BackendMemory, 16<<20
		s, stop := storetest.Start(t, cfg, store.Deps{})
		defer func() { _ = stop() }()
		noted := func() (held int64) {
			for info, err := range s.Partials().All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				held += info.Stored
			}
			return held
		}
		p := storetest.Bytes(902, 4*group)
		in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(in, groupsOf(t, p, 0, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if noted() != 0 {
			t.Error("a claim was noted")
		}
		if err := writeAll(in, groupsOf(t, p, 3, 4)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it was due long ago
		if noted() != 2*group {
			t.Errorf("%d bytes are noted when the size is proved", noted())
		}
		if err := writeAll(in, groupsOf(t, p, 1, 2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		in.Abort(nil)
		if st := s.Stats(); noted() != 0 || st.PartialBytes != 0 || st.PartialObjects != 0 {
			t.Errorf("after it was given up, stats say %+v", st)
		}
	})
}
