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
// everything since: what is whole is found again, nothing wrong is served, what
// an ordinary crash leaves is no damage and all else is, and the log goes on.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a store for each byte of a log; TestRebuildCrash has its goroutines")
	}
	t.Parallel()
	const name, header, record = "/store/seg/0000000000000001.seg", 64, 68
	disk := vfs.NewCrashableMem()
	cfg := tiny()
	cfg.ZeroAheadBytes = 0
	s, _ := storetest.Start(t, cfg, store.Deps{FS: disk})
	var all [][]byte
	ends := []int{}
	for i := range 8 {
		p := storetest.Bytes(uint64(i), 100*i)
		storetest.Put(t, s, p)
		all = append(all, p)
		if i == 0 {
			ends = append(ends, len(read(t, disk, name))-record)
		}
		ends = append(ends, ends[i]+record+len(p))
	}
	whole := read(t, disk, name)
	if len(whole) != ends[len(all)] {
		t.Fatalf("the segment has %d bytes, want %d", len(whole), ends[len(all)])
	}
	lost := disk.CrashClone(vfs.CrashCloneCfg{}) // the index was not synced since it was made

	// An object that is damaged is known as such; where nothing can be read, it is
	// not known at all.
	type fate uint8
	const (
		found fate = iota
		damaged
		unknown
	)
	check := func(what string, segment []byte, open, lostRecords bool, want func(i int) fate) {
		t.Helper()
		fs := vfs.NewCrashableMem()
		if _, err := vfs.Clone(lost, fs, "/store", "/store"); err != nil {
			t.Fatal(err)
		}
		write(t, fs, name, segment)
		extra := storetest.Bytes(99, 777)
		for round := range 2 {
			s, stop := storetest.Start(t, cfg, store.Deps{FS: fs})
			for i, p := range all {
				switch want(i) {
				case found:
					storetest.Holds(t, s, p)
				case damaged:
					_, err := s.Open(t.Context(), b3.Sum(p))
					storetest.Want(t, err, status.Corrupt)
				case unknown:
					if _, err := s.Open(t.Context(), b3.Sum(p)); status.Of(err) != status.NotFound {
						t.Fatalf("%s: object %d: %v", what, i, err)
					}
				}
			}
			n := 0
			for root, err := range storetest.VerifyAll(t.Context(), s) {
				if status.Of(err) == status.Corrupt {
					n++
				} else if err != nil {
					t.Fatalf("%s: %s: %v", what, root, err)
				}
			}
			for i := range all {
				if want(i) == damaged {
					n--
				}
			}
			if n != 0 {
				t.Fatalf("%s: %d objects too many are damaged", what, n)
			}
			if gotOpen, gotUnknown := s.OpenDamage(); (gotOpen > 0) != open || (gotUnknown > 0) != lostRecords {
				t.Fatalf("%s: round %d: %d are open, %d unknown: %+v", what, round, gotOpen, gotUnknown, s.Damage())
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
	everything := func(int) fate { return found }
	check("nothing changed", whole, false, false, everything)
	check("zeros behind", append(bytes.Clone(whole), make([]byte, 100_000)...), false, false, everything)
	check("garbage behind", append(bytes.Clone(whole), storetest.Bytes(5, 5000)...), false, false, everything)
	check("an old record behind", append(bytes.Clone(whole), whole[ends[2]:ends[3]-1]...), false, false, everything)
	for cut := ends[1]; cut <= len(whole); cut += 37 * every(3) { // the index was synced with the first batch
		check("cut", whole[:cut], false, false, func(i int) fate {
			if cut >= ends[i+1] {
				return found
			}
			return unknown
		})
		torn := append(bytes.Clone(whole[:cut]), make([]byte, len(whole)-cut)...)
		check("zeroed", torn, false, false, func(i int) fate {
			switch {
			case bytes.Equal(torn[ends[i]:ends[i+1]], whole[ends[i]:ends[i+1]]):
				return found // also where the cut fell on zeros of the original
			}
			return unknown
		})
	}
	for _, hurt := range []int{1, 4, 7} {
		body := bytes.Clone(whole)
		body[ends[hurt]+record] ^= 1
		last := hurt == len(all)-1 // as after a crash
		check("body damaged", body, !last, false, func(i int) fate {
			switch {
			case i != hurt:
				return found
			case last:
				return unknown
			}
			return damaged
		})
		for at := range record {
			if at%every(4) != hurt%every(4) {
				continue
			}
			head := bytes.Clone(whole)
			head[ends[hurt]+at] ^= byte(1 + 31*at%255)
			check("one byte of a header damaged", head, false, false, everything)
		}
		for _, fill := range []byte{0, 0xff} {
			head := bytes.Clone(whole)
			for at := range record {
				head[ends[hurt]+at] = fill
			}
			check("header wiped out", head, !last, !last, func(i int) fate {
				if i == hurt {
					return unknown
				}
				return found
			})
		}
	}
	for at := 0; at < header; at += every(2) {
		other := bytes.Clone(whole)
		other[at] ^= byte(1 + 31*at%255)
		check("segment header damaged", other, false, false, everything)
	}
	wiped := bytes.Clone(whole)
	clear(wiped[:header])
	check("segment header wiped out", wiped, false, false, everything)
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
	t.Logf("a deferred put of 4 KiB allocates %.1f times", n)
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
