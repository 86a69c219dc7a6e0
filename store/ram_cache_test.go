package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cache"
	"allium/store/storetest"
)

// heat opens root until it is in the hot tier.
func heat(t testing.TB, s *store.Store, root b3.Root) {
	t.Helper()
	for range 2 {
		if _, err := storetest.Get(t, s, root); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHotReadsNoDisk: what was opened twice is served with a disk that answers
// nothing, bytes, ranges and tree; what is too large is not.
func TestHotReadsNoDisk(t *testing.T) {
	t.Parallel()
	f := &fault{err: syscall.EIO, kinds: []errorfs.OpKind{errorfs.OpFileReadAt, errorfs.OpFileRead, errorfs.OpOpen},
		path: "/"}
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(vfs.NewMem(), f)})
	sizes := []int{0, 1, b3.GroupSize, b3.GroupSize + 1, 4 * b3.GroupSize}
	for i, n := range sizes {
		heat(t, s, storetest.Put(t, s, storetest.Bytes(uint64(i), n)))
	}
	large := storetest.Put(t, s, storetest.Bytes(9, 4*b3.GroupSize+1))
	heat(t, s, large)
	if hot := s.Stats().Hot; hot.Objects != int64(len(sizes)) || hot.Hits != 0 || hot.Misses != 2*int64(len(sizes)+1) {
		t.Errorf("before: %+v", hot)
	}
	f.on.Store(true)
	for i, n := range sizes {
		p := storetest.Bytes(uint64(i), n)
		storetest.Holds(t, s, p)
		o, err := s.Open(t.Context(), b3.Sum(p))
		if err != nil {
			t.Fatal(err)
		}
		walkAll(t, o, p)
		o.Close()
	}
	if _, err := storetest.Get(t, s, large); err == nil {
		t.Error("the fault is not met")
	}
	if hot := s.Stats().Hot; hot.Hits != 2*int64(len(sizes)) {
		t.Errorf("after: %+v", hot)
	}
}

// walkAll proves o the way the object protocol does.
func walkAll(t *testing.T, o *store.Object, want []byte) {
	t.Helper()
	w, err := b3.NewWalk(o.Root(), o.Size(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	buf := make([]byte, b3.GroupSize)
	for _, more := w.Next(); more; _, more = w.Next() {
		p, err := w.Fill(o.Source(), buf)
		if err != nil {
			t.Fatal(err)
		}
		if !p.IsParent() {
			got.Write(p.Data())
		}
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("the walk gave other bytes")
	}
}

// TestHotIsBounded: the tier never holds more than it may, and a pass over
// everything does not take the place of what is in demand.
func TestHotIsBounded(t *testing.T) {
	t.Parallel()
	cfg := embedded("/store")
	cfg.HotBytes = 2 << 20
	s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
	wanted := storetest.Put(t, s, storetest.Bytes(1, 1000))
	heat(t, s, wanted)
	p := storetest.Bytes(2, 2000)
	var roots []b3.Root
	for i := range 3000 {
		binary.LittleEndian.PutUint64(p, uint64(i))
		info, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true})
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, info.Root)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, root := range roots { // a scan
		if _, err := storetest.Get(t, s, root); err != nil {
			t.Fatal(err)
		}
	}
	if hot := s.Stats().Hot; hot.Objects != 1 {
		t.Errorf("after a scan: %+v", hot)
	}
	if _, err := storetest.Get(t, s, wanted); err != nil || s.Stats().Hot.Hits != 1 {
		t.Errorf("what is in demand was pushed out: %v, %+v", err, s.Stats().Hot)
	}
	for _, root := range roots { // demand
		heat(t, s, root)
	}
	hot := s.Stats().Hot
	if hot.Bytes > int64(cfg.HotBytes) || hot.Bytes < int64(cfg.HotBytes)*3/4 {
		t.Errorf("%d bytes are held, %s are allowed", hot.Bytes, cfg.HotBytes)
	}
	if min := int64(cfg.HotBytes) / (2000 + 600); hot.Objects < min*3/4 {
		t.Errorf("%d objects, want about %d", hot.Objects, min)
	}
}

// TestHotOff: without the tier nothing is held.
func TestHotOff(t *testing.T) {
	t.Parallel()
	cfg := tiny()
	cfg.HotBytes = 0
	s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
	root := storetest.Put(t, s, storetest.Bytes(1, 1000))
	heat(t, s, root)
	heat(t, s, root)
	if hot := s.Stats().Hot; hot != (cache.Stats{}) {
		t.Errorf("%+v", hot)
	}
	if err := s.Delete(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	cfg.HotBytes = 1000
	if _, err := store.New(cfg, store.Deps{}); err == nil {
		t.Error("a tier that holds no object is taken")
	}
}

// TestHotForgets: an object that is deleted or found damaged is not served from
// RAM, and one that is put again is.
func TestHotForgets(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: disk})
	for i, n := range []int{1000, 3 * b3.GroupSize} {
		p := storetest.Bytes(uint64(i), n)
		root := storetest.Put(t, s, p)
		heat(t, s, root)
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		_, err := s.Open(t.Context(), root)
		storetest.Want(t, err, status.NotFound)
		storetest.Put(t, s, p)
		heat(t, s, root)
		storetest.Holds(t, s, p)
	}
	p := storetest.Bytes(1, 3*b3.GroupSize)
	root := b3.Sum(p)
	name := "/store/obj/" + root.Hex()[:2] + "/" + root.Hex()
	flipByte(t, disk, name, 100_000)
	if err := s.Verify(t.Context(), root); status.Of(err) != status.Corrupt {
		t.Fatalf("verify says %v", err)
	}
	_, err := s.Open(t.Context(), root)
	storetest.Want(t, err, status.Corrupt)
	storetest.Put(t, s, p)
	storetest.Holds(t, s, p)
}

// flipByte changes one bit of a stored file behind the store's back.
func flipByte(t *testing.T, fs vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// TestHotTakesNoDamage: bytes that are wrong on the disk do not come in, nor
// does a tree that is.
func TestHotTakesNoDamage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		file string // "" is the segment
		size int
	}{{"record", "", 1000}, {"file", "data", 2 * b3.GroupSize}, {"outboard", ".ob", 3 * b3.GroupSize}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewMem()
			s, _ := storetest.Start(t, tiny(), store.Deps{FS: disk})
			p := storetest.Bytes(1, test.size)
			root := storetest.Put(t, s, p)
			storetest.Holds(t, s, p) // the next open brings it in
			name := "/store/obj/" + root.Hex()[:2] + "/" + root.Hex()
			switch test.file {
			case "":
				name = "/store/seg/0000000000000001.seg"
			case ".ob":
				name += ".ob"
			}
			at := int64(100)
			if test.file == "" {
				at = 400 // behind the headers
			}
			flipByte(t, disk, name, at)
			_, err := s.Open(t.Context(), root)
			storetest.Want(t, err, status.Corrupt)
			if st := s.Stats(); st.Hot.Objects != 0 || st.Corrupt != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestHotRaces: opens, deletes and puts of the same few objects at once. Who
// opens one gets its bytes or not_found, and nobody finds what was deleted and
// not put again.
func TestHotRaces(t *testing.T) {
	t.Parallel()
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
	objects := [][]byte{storetest.Bytes(1, 500), storetest.Bytes(2, 2*b3.GroupSize)}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	var opened atomic.Int64
	for _, p := range objects {
		root := b3.Sum(p)
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					got, err := storetest.Get(t, s, root)
					switch {
					case err == nil && !bytes.Equal(got, p):
						t.Error("wrong bytes")
					case err == nil:
						opened.Add(1)
					case status.Of(err) != status.NotFound:
						t.Error(err)
					}
				}
			})
		}
	}
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	var writers sync.WaitGroup
	for _, p := range objects {
		writers.Go(func() {
			root := b3.Sum(p)
			for range rounds {
				if _, err := s.PutBytes(t.Context(), p, store.PutOptions{}); err != nil {
					t.Error(err)
					return
				}
				if got, err := storetest.Get(t, s, root); err != nil || !bytes.Equal(got, p) {
					t.Errorf("after the put: %v", err)
				}
				err := s.Delete(t.Context(), root)
				for ; status.Of(err) == status.Conflict; err = s.Delete(t.Context(), root) {
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Open(t.Context(), root); status.Of(err) != status.NotFound {
					t.Errorf("after the delete: %v", err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if st := s.Stats(); st.Hot.Objects != 0 || st.Hot.Bytes != 0 || st.Objects != 0 || st.Leases != 0 {
		t.Errorf("left over: %+v", st)
	}
	if opened.Load() == 0 || s.Stats().Hot.Hits == 0 {
		t.Errorf("%d opens, %+v: nothing raced", opened.Load(), s.Stats().Hot)
	}
}

// TestHotAllocates: an open from RAM is one small allocation.
func TestHotAllocates(t *testing.T) {
	s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
	root := storetest.Put(t, s, storetest.Bytes(1, 5000))
	heat(t, s, root)
	buf := make([]byte, b3.GroupSize)
	if n := testing.AllocsPerRun(100, func() {
		o, err := s.Open(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Reader().ReadGroup(0, buf); err != nil {
			t.Fatal(err)
		}
		o.Close()
	}); n > 2 {
		t.Errorf("%v allocations an open", n)
	}
}

// BenchmarkOpenHot is open and read of 4 KiB from RAM, against
// BenchmarkOpenSmall.
func BenchmarkOpenHot(b *testing.B) {
	s, _ := storetest.Start(b, embedded(b.TempDir()), store.Deps{})
	root := storetest.Put(b, s, storetest.Bytes(1, 4<<10))
	heat(b, s, root)
	b.SetBytes(4 << 10)
	b.ReportAllocs()
	for b.Loop() {
		o, err := s.Open(b.Context(), root)
		if err != nil {
			b.Fatal(err)
		}
		sec := o.Reader().Section(0, -1)
		if _, err := sec.WriteTo(io.Discard); err != nil && !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
		sec.Close()
		o.Close()
	}
}

// TestInspectIsNoUse: what the node opens for itself has the bytes, and neither counts as used nor gets into the RAM
// cache.
func TestInspectIsNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := storetest.Start(t, tiny(), store.Deps{FS: vfs.NewMem()})
		ctx := t.Context()
		p := []byte("a proof needs these")
		root := storetest.Put(t, s, p)
		used := func(want bool) {
			t.Helper()
			if got, err := s.UsedWithin(ctx, root, time.Hour); err != nil || got != want {
				t.Errorf("used: %v, %v, want %v", got, err, want)
			}
		}
		used(true) // it was stored
		time.Sleep(2 * time.Hour)
		for range 5 {
			o, err := s.Inspect(ctx, root)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(o.Reader().Section(0, -1)); err != nil || !bytes.Equal(got, p) {
				t.Errorf("%q, %v", got, err)
			}
			_ = o.Close()
		}
		used(false)
		if hot := s.Stats().Hot; hot.Objects > 0 || hot.Misses > 0 {
			t.Errorf("the RAM cache is %+v", hot)
		}
		o, err := s.Open(ctx, root)
		if err != nil {
			t.Fatal(err)
		}
		_ = o.Close()
		used(true)
		if _, err := s.Inspect(ctx, b3.Root{1}); status.Of(err) != status.NotFound {
			t.Errorf("what is not there: %v", err)
		}
		if _, err := s.UsedWithin(ctx, b3.Root{1}, time.Hour); status.Of(err) != status.NotFound {
			t.Errorf("what is not there: %v", err)
		}
	})
}
