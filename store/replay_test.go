package store_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestReplay changes the segment that a power loss left while the index lost
// everything since: what is whole before the change is found again, nothing
// wrong is served, and the log goes on.
func TestReplay(t *testing.T) {
	t.Parallel()
	const name, header, record = "/store/seg/0000000000000001.seg", 32, 56
	disk := vfs.NewCrashableMem()
	cfg := tiny()
	cfg.ZeroAheadBytes = 0
	s, _ := storetest.Start(t, cfg, store.Deps{FS: disk})
	var all [][]byte
	ends := []int{header}
	for i := range 8 {
		p := storetest.Bytes(uint64(i), 100*i)
		storetest.Put(t, s, p)
		all = append(all, p)
		ends = append(ends, ends[i]+record+len(p))
	}
	whole := read(t, disk, name)
	if len(whole) != ends[len(all)] {
		t.Fatalf("the segment has %d bytes, want %d", len(whole), ends[len(all)])
	}
	lost := disk.CrashClone(vfs.CrashCloneCfg{}) // the index was not synced since it was made

	stale := storetest.Bytes(98, 500)
	check := func(what string, segment []byte, there func(i int) bool) {
		t.Helper()
		fs := vfs.NewCrashableMem()
		if _, err := vfs.Clone(lost, fs, "/store", "/store"); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(segment, 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
		extra := storetest.Bytes(99, 777)
		for round := range 2 {
			s, stop := storetest.Start(t, cfg, store.Deps{FS: fs})
			for i, p := range all {
				if there(i) {
					storetest.Holds(t, s, p)
					continue
				}
				if _, err := s.Open(t.Context(), b3.Sum(p)); status.Of(err) != status.NotFound {
					t.Fatalf("%s: object %d: %v", what, i, err)
				}
			}
			for root, err := range s.VerifyAll(t.Context()) {
				if err != nil || root == b3.Sum(stale) {
					t.Fatalf("%s: %s: %v", what, root, err)
				}
			}
			if round == 0 {
				storetest.Put(t, s, extra)
			}
			storetest.Holds(t, s, extra)
			// Not stopped in order: the second round replays again.
			if round == 0 {
				copied := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				fs = copied
			}
		}
	}
	everything := func(int) bool { return true }
	check("nothing changed", whole, everything)
	check("zeros behind", append(bytes.Clone(whole), make([]byte, 100_000)...), everything)
	check("garbage behind", append(bytes.Clone(whole), storetest.Bytes(5, 5000)...), everything)
	// A record that is not reached now must not be when the log has grown to it.
	hole := append(bytes.Clone(whole), make([]byte, record+777)...)
	check("a stale record behind", append(hole, recordOf(t, stale)...), everything)
	check("an old record behind", append(bytes.Clone(whole), whole[ends[2]:ends[3]-1]...), everything)
	step := 37
	if testing.Short() {
		step *= 5
	}
	for cut := 0; cut <= len(whole); cut += step {
		check("cut", whole[:cut], func(i int) bool { return cut >= ends[i+1] })
		torn := append(bytes.Clone(whole[:cut]), make([]byte, len(whole)-cut)...)
		// Where the cut fell on zeros of the original, more is whole.
		check("zeroed", torn, func(i int) bool { return bytes.Equal(torn[:ends[i+1]], whole[:ends[i+1]]) })
	}
	for _, hurt := range []int{1, 4, 7} {
		body := bytes.Clone(whole)
		body[ends[hurt]+record] ^= 1
		check("body damaged", body, func(i int) bool { return i != hurt })
		head := bytes.Clone(whole)
		head[ends[hurt]+20] ^= 1
		check("header damaged", head, func(i int) bool { return i < hurt })
	}
	other := bytes.Clone(whole)
	other[17] ^= 1
	check("segment header damaged", other, func(int) bool { return false })
}

// recordOf is the record of p in a store's first segment.
func recordOf(t *testing.T, p []byte) []byte {
	t.Helper()
	disk := vfs.NewMem()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: disk})
	storetest.Put(t, s, p)
	return read(t, disk, "/store/seg/0000000000000001.seg")[32 : 32+56+len(p)]
}

func read(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAllocations bounds what the path of a small put costs.
func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates too")
	}
	p := storetest.Bytes(1, 4096)
	i := 0
	s, _ := storetest.Start(t, embedded(t.TempDir()), store.Deps{})
	n := testing.AllocsPerRun(2000, func() {
		i++
		p[0], p[1], p[2] = byte(i), byte(i>>8), byte(i>>16)
		if _, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
	})
	if n > 4 {
		t.Errorf("a deferred put of 4 KiB allocates %.1f times", n)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := b3.Sum(p)
	n = testing.AllocsPerRun(1000, func() {
		o, err := s.Open(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		o.Close()
	})
	if n > 12 {
		t.Errorf("open of a small object allocates %.1f times", n)
	}
}
